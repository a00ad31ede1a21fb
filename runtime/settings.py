# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a command that serves, from a file, the environment and the command line, and where each came from.

    @main.command(cls=Configured, prefix="RAGSEAL_PROVIDER")
    @click.option("--listen", ...)
    def serve(listen: str) -> None: ...

A flag counts before the environment (``RAGSEAL_PROVIDER_LISTEN``), that before the file (``listen = "..."``), that
before the default.  Names, types and defaults are those of the command's own options: nothing is written down twice.
"""

from __future__ import annotations

import difflib
import json
import logging
import math
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.kernel.printable import printable
from ragseal.runtime import texts
from ragseal.runtime.logs import AS_JSON, FORMATS, PLAIN, log_to_stderr
from ragseal.runtime.sections import Sectioned

CONFIG, CHECK = "config", "check-config"  #: options that no file sets

#: In a context's meta: the file, the command line's words, the values in force, the log's format.
_FILE, _ARGUMENTS, _VALUES, _FORM = (f"ragseal.settings.{one}" for one in ("file", "arguments", "values", "log"))
_PASSWORD = re.compile(r"(?<=://)\S*@")  #: of a URL, to the last @: a password may have / and @ in it
_ASKS = re.compile(r"\?\S*")  #: what a URL asks for: some servers take their key there

_log = logging.getLogger("ragseal")


@dataclass(frozen=True, slots=True)
class Setting:
    """An option's value in force."""

    name: str  #: as in the file
    value: Any  #: text, number, boolean, a list of them, or None: not set
    source: str


class Configured(Sectioned):
    """A command that serves, and whose options may stand in a file and in the environment.

    Adds ``--config FILE``, ``--check-config``, which :func:`only_checked` answers, and ``--log-format``; what it runs
    logs to stderr.
    """

    def __init__(self, *arguments: Any, prefix: str, **attributes: Any) -> None:
        """``prefix``: of the environment's variables."""
        super().__init__(*arguments, **attributes)
        self.params += [
            click.Option(
                ["--config"], type=click.Path(path_type=Path, exists=True, dir_okay=False), is_eager=True,
                expose_value=False, callback=_read, metavar="FILE",
                help=f"Options from a TOML file, by their names here; {prefix}_... in the environment counts before "
                "it, and a flag before both.",
            ),
            click.Option(
                ["--check-config"], is_flag=True, expose_value=False, callback=_remember,
                help="Print every option in force, and where it comes from, and end.",
            ),
            click.Option(
                ["--log-format"], type=click.Choice(FORMATS), default=PLAIN, show_default=True,
                help="The log on stderr: lines for people, or one JSON object a line.",
            ),
        ]  # fmt: skip
        for name, option in _options(self):
            if option.envvar is None and name != CHECK:
                option.envvar = f"{prefix}_{name.upper().replace('-', '_')}"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        ctx.meta[_VALUES] = dict(ctx.params)
        for name, option in _options(self):
            value = ctx.params.get(option.name or "")
            if isinstance(value, float) and not math.isfinite(value):  # no range of click's refuses nan
                raise ConfigurationError(f"{name} takes a finite number, not {value}")
        form = ctx.meta[_FORM] = ctx.params.pop("log_format")
        if ctx.meta[CHECK]:
            return super().invoke(ctx)
        log_to_stderr(form)
        try:
            return super().invoke(ctx)
        except AuditError as error:
            if form != AS_JSON:
                raise
            _log.critical("%s", error)
        except Exception as error:
            if form != AS_JSON or isinstance(error, click.ClickException | click.exceptions.Exit):
                raise
            _log.critical("the program ends", exc_info=True)
        sys.exit(1)


def _options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """A command's options by the names that a file has for them."""
    for option in command.params:
        if isinstance(option, click.Option):
            longest = max(option.opts, key=len)
            yield longest.removeprefix("--"), option


# --- the file --------------------------------------------------------------------------------------------------------


def _read(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Click's callback of ``--config``: the file's values become defaults.

    Raises:
        ConfigurationError: the file cannot be read, or holds what no option takes; names the file and the option.
    """
    ctx.meta[_FILE] = path
    if path is None:
        return
    known = {name: option for name, option in _options(ctx.command) if name not in (CONFIG, CHECK)}
    found: dict[str, Any] = {}
    for name, value in _table(path).items():
        if name not in known:
            near = difflib.get_close_matches(name.replace("_", "-"), known, 1, 0.5)
            way = f"do you mean {near[0]}?" if near else f"it takes the options of `{ctx.command_path}`"
            raise ConfigurationError(f"{path} sets {name!r}, which is not an option: {way}")
        option = known[name]
        try:
            assert option.name is not None
            found[option.name] = _value(option, value, path.parent)
            option.type_cast_value(ctx, found[option.name])
        except click.BadParameter as error:
            raise ConfigurationError(f"{path}: {name}: {error.message}") from None
    ctx.default_map = found


def _table(path: Path) -> dict[str, Any]:
    return texts.read_toml(path, str(path))


def _value(option: click.Option, value: Any, folder: Path) -> Any:
    """A value as TOML has it, for this option; paths are the file's neighbours.  Raises click.BadParameter."""
    if not option.multiple:
        return _one(option, value, folder)
    if not isinstance(value, list):
        raise click.BadParameter('takes a list: ["...", "..."]')
    return [_one(option, one, folder) for one in value]


def _one(option: click.Option, value: Any, folder: Path) -> str | bool | int | float:
    """Click would make text of a number and a whole number of 1.5: in a file both are mistakes."""
    kinds: dict[type[click.ParamType[Any]], tuple[str, tuple[type, ...]]] = {
        click.types.BoolParamType: ("true or false", (bool,)),
        click.types.IntParamType: ("a whole number", (int,)),
        click.types.FloatParamType: ("a number", (int, float)),
    }
    what, takes = next((taken for kind, taken in kinds.items() if isinstance(option.type, kind)), ("text", (str,)))
    if not isinstance(value, takes) or (isinstance(value, bool) and bool not in takes):
        raise click.BadParameter(f"takes {what}")
    assert isinstance(value, str | bool | int | float)
    return str(folder / str(value)) if isinstance(option.type, click.Path) else value


# --- what is in force ------------------------------------------------------------------------------------------------


def _remember(ctx: click.Context, _: click.Parameter, given: bool) -> None:
    ctx.meta[CHECK] = given


def only_checked(as_json: bool) -> bool:
    """Whether the running command was asked for ``--check-config``; if so, its options are printed."""
    ctx = click.get_current_context()
    if not ctx.meta.get(CHECK):
        return False
    settings = in_force(ctx)
    if as_json:
        click.echo(json.dumps({one.name: {"value": one.value, "source": one.source} for one in settings}))
    else:
        click.echo("\n".join(map(_line, settings)))
    return True


def in_force(ctx: click.Context) -> list[Setting]:
    """Every option of a command that was parsed, without passwords."""
    found = []
    for name, option in _options(ctx.command):
        if name in (CONFIG, CHECK, "help") or option.name is None:
            continue
        source = ctx.get_parameter_source(option.name)
        said = {
            ParameterSource.COMMANDLINE: f"flag --{name}",
            ParameterSource.ENVIRONMENT: f"environment {option.envvar}",
            ParameterSource.DEFAULT_MAP: f"file {ctx.meta.get(_FILE)}",
        }
        shown = _shown(ctx.meta[_VALUES].get(option.name))
        found.append(Setting(name, shown, "default" if source is None else said.get(source, "default")))
    return found


def _shown(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_shown(one) for one in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    text = _PASSWORD.sub("***@", printable(str(value)))
    return _ASKS.sub("?***", text) if "://" in text else text


def _line(one: Setting) -> str:
    """A line of the file that would say the same, and where it comes from."""
    source = printable(one.source)
    if one.value is None:
        return f"# {one.name} is not set"
    return f"{one.name} = {json.dumps(one.value, ensure_ascii=False)}  # {source}"


def logs_for_people() -> bool:
    """Whether the running command may say on stderr what is not in its log, such as how far something is."""
    return bool(click.get_current_context().meta.get(_FORM, PLAIN) == PLAIN)


def read_again(ctx: click.Context, taken: Collection[str] = ()) -> dict[str, Any]:
    """The options of a running command as its file has them now, by the names of its parameters.

    Args:
        taken: parameters that take effect at once; of others that have changed the log says that they wait.

    Raises:
        ConfigurationError: the file is not there any more, or holds what no option takes.
    """
    try:
        with ctx.command.make_context(ctx.info_name, list(ctx.meta[_ARGUMENTS])) as fresh:
            found = dict(fresh.params)
    except click.ClickException as error:
        raise ConfigurationError(error.format_message()) from None
    before = ctx.meta[_VALUES]
    for name, option in _options(ctx.command):
        if option.name in before and option.name not in taken and found[option.name] != before[option.name]:
            _log.warning("%s has changed in the file: that takes effect at the next start", name)
    return found
