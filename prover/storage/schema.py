# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of a provider's database, ``state.db``."""

from __future__ import annotations

import sqlite3
from contextlib import closing

SCHEMA_VERSION = 12
SCHEMA = """
CREATE TABLE IF NOT EXISTS accounts (
    name TEXT PRIMARY KEY, tenant TEXT NOT NULL, public_key BLOB NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS tenants (
    name TEXT PRIMARY KEY, placement BLOB NOT NULL, counter INTEGER NOT NULL, capacity INTEGER NOT NULL,
    block_slots INTEGER NOT NULL, revision INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS documents (
    tenant TEXT NOT NULL, slot INTEGER NOT NULL, document TEXT NOT NULL, text TEXT NOT NULL, metadata BLOB NOT NULL,
    row BLOB NOT NULL, content BLOB NOT NULL, source TEXT NOT NULL, PRIMARY KEY (tenant, slot),
    UNIQUE (tenant, document));
CREATE TABLE IF NOT EXISTS resting (
    tenant TEXT NOT NULL, document BLOB NOT NULL, slot INTEGER NOT NULL, PRIMARY KEY (tenant, document));
CREATE TABLE IF NOT EXISTS coin_placements (
    tenant TEXT NOT NULL, coin_period BLOB NOT NULL, placement BLOB NOT NULL, PRIMARY KEY (tenant, coin_period));
CREATE TABLE IF NOT EXISTS source_marks (
    tenant TEXT NOT NULL, source TEXT NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (tenant, source));
CREATE TABLE IF NOT EXISTS windows (
    manifest BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, signed BLOB NOT NULL, seed BLOB NOT NULL,
    nonce BLOB NOT NULL, blinding BLOB NOT NULL, coin_seed BLOB);
CREATE TABLE IF NOT EXISTS window_keys (
    manifest BLOB PRIMARY KEY, key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS window_accounts (
    manifest BLOB NOT NULL, pseudonym TEXT NOT NULL, name TEXT NOT NULL, account BLOB NOT NULL,
    PRIMARY KEY (manifest, pseudonym), UNIQUE (manifest, name));
CREATE TABLE IF NOT EXISTS enrolment_secrets (
    manifest BLOB PRIMARY KEY, secret BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS enrolments (
    manifest BLOB NOT NULL, pseudonym TEXT NOT NULL, name TEXT NOT NULL, line BLOB NOT NULL,
    PRIMARY KEY (manifest, pseudonym), UNIQUE (manifest, name));
CREATE TABLE IF NOT EXISTS versions (
    manifest BLOB NOT NULL, number INTEGER NOT NULL, tenant TEXT NOT NULL, secret BLOB NOT NULL, blinders BLOB NOT NULL,
    public BLOB NOT NULL, matrix TEXT NOT NULL, PRIMARY KEY (manifest, number, tenant));
CREATE TABLE IF NOT EXISTS version_texts (
    manifest BLOB NOT NULL, number INTEGER NOT NULL, tenant TEXT NOT NULL, slot INTEGER NOT NULL,
    document TEXT NOT NULL, text TEXT NOT NULL, metadata BLOB NOT NULL, row BLOB NOT NULL, until INTEGER,
    PRIMARY KEY (manifest, tenant, slot, number));
CREATE INDEX IF NOT EXISTS version_texts_lives ON version_texts (manifest, tenant, number, until);
CREATE TABLE IF NOT EXISTS thinnings (
    manifest BLOB NOT NULL, tenant TEXT NOT NULL, hidden BLOB NOT NULL, blinders BLOB NOT NULL,
    public BLOB NOT NULL, PRIMARY KEY (manifest, tenant));
CREATE TABLE IF NOT EXISTS queries (
    manifest BLOB NOT NULL, account TEXT NOT NULL, ctr INTEGER NOT NULL, request BLOB NOT NULL, secrets BLOB NOT NULL,
    PRIMARY KEY (manifest, account, ctr, request));
CREATE TABLE IF NOT EXISTS vocabularies (
    root BLOB PRIMARY KEY, words BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS participations (
    manifest BLOB NOT NULL, document BLOB NOT NULL, answers INTEGER NOT NULL, PRIMARY KEY (manifest, document));
CREATE TABLE IF NOT EXISTS prepared (
    prepare BLOB PRIMARY KEY, manifest BLOB NOT NULL, embedding BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS proofs (
    manifest BLOB NOT NULL, seq INTEGER NOT NULL, entry BLOB NOT NULL, PRIMARY KEY (manifest, seq));
CREATE TABLE IF NOT EXISTS shard_proofs (
    manifest BLOB NOT NULL, seq INTEGER NOT NULL, shard INTEGER NOT NULL, proof BLOB NOT NULL,
    PRIMARY KEY (manifest, seq, shard));
CREATE TABLE IF NOT EXISTS estimates (
    manifest BLOB PRIMARY KEY, links BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS auditors (
    key_digest BLOB PRIMARY KEY, public_key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS admitted_auditors (
    public_key BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, since INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS asks (
    digest BLOB PRIMARY KEY, auditor BLOB NOT NULL, time INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ask_floors (
    auditor BLOB PRIMARY KEY, time INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS stopped_keys (
    key_digest BLOB PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS ledger_mark (
    one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER NOT NULL, note BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS retirements (
    manifest BLOB PRIMARY KEY, began INTEGER NOT NULL, ended INTEGER);
CREATE TABLE IF NOT EXISTS kept_deliveries (
    manifest BLOB NOT NULL, ask BLOB NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (manifest, ask));
CREATE TABLE IF NOT EXISTS erasures (
    number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, hash BLOB NOT NULL, document TEXT, reason TEXT NOT NULL,
    asked INTEGER NOT NULL, purged INTEGER);
CREATE TABLE IF NOT EXISTS erasure_windows (
    number INTEGER NOT NULL, manifest BLOB NOT NULL, PRIMARY KEY (number, manifest));
CREATE TABLE IF NOT EXISTS erased (
    hash BLOB PRIMARY KEY);
CREATE TABLE IF NOT EXISTS erasing (
    one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL, retain INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS backups (
    folder TEXT NOT NULL, made INTEGER NOT NULL, sealed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS copy_keys (
    name BLOB PRIMARY KEY, key BLOB NOT NULL);
CREATE TRIGGER IF NOT EXISTS retired_query BEFORE INSERT ON queries
    WHEN EXISTS (SELECT 1 FROM retirements WHERE manifest = NEW.manifest) BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER IF NOT EXISTS retired_prepare BEFORE INSERT ON prepared
    WHEN EXISTS (SELECT 1 FROM retirements WHERE manifest = NEW.manifest) BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER IF NOT EXISTS retired_shard_proof BEFORE INSERT ON shard_proofs
    WHEN EXISTS (SELECT 1 FROM retirements WHERE manifest = NEW.manifest) BEGIN SELECT RAISE(IGNORE); END;
"""


def schema_of_another(database: sqlite3.Connection) -> bool:
    """Whether a database has another layout than this program gives it, triggers and views included."""
    layout = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    with closing(sqlite3.connect(":memory:")) as own:
        own.executescript(SCHEMA)
        wanted = own.execute(layout).fetchall()
    return database.execute(layout).fetchall() != wanted
