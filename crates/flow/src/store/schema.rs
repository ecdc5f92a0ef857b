//! The tables, and how older ones become these: one step a version, forward only.

/// The number by which SQLite's header says whose file this is: "WFLW".
pub(super) const APPLICATION_ID: i64 = 0x5746_4c57;

/// What makes each version from the one before; the last one's number is that of this program.
pub(super) const STEPS: &[&str] = &["
CREATE TABLE objects(
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  project TEXT NOT NULL,
  version INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  type TEXT,
  status TEXT,
  parent TEXT,
  path TEXT,
  depth INTEGER,
  number INTEGER,
  name TEXT,
  assignee TEXT,
  priority INTEGER,
  until TEXT,
  doc TEXT NOT NULL
);
CREATE INDEX objects_by_type ON objects(project, kind, deleted, type, seq);
CREATE INDEX objects_by_seq ON objects(project, kind, deleted, seq);
CREATE INDEX objects_by_status ON objects(project, kind, deleted, status, priority, number);
CREATE INDEX objects_by_parent ON objects(parent, seq) WHERE parent IS NOT NULL;
CREATE INDEX objects_by_path ON objects(path) WHERE path IS NOT NULL;
CREATE INDEX objects_by_number ON objects(project, number) WHERE number IS NOT NULL;
CREATE INDEX objects_by_name ON objects(project, kind, name) WHERE name IS NOT NULL;
CREATE TABLE edges(
  source TEXT NOT NULL, relation TEXT NOT NULL, target TEXT NOT NULL,
  PRIMARY KEY(source, relation, target)
) WITHOUT ROWID;
CREATE INDEX edges_by_target ON edges(target, relation, source);
CREATE TABLE facts(
  project TEXT NOT NULL, type TEXT NOT NULL, place TEXT NOT NULL, value BLOB NOT NULL, object INTEGER NOT NULL,
  PRIMARY KEY(project, type, place, value, object)
) WITHOUT ROWID;
CREATE INDEX facts_by_object ON facts(object);
CREATE VIRTUAL TABLE texts USING fts5(
  title, body, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2', prefix='3'
);
CREATE TABLE events(
  seq INTEGER PRIMARY KEY,
  change INTEGER NOT NULL,
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  tool TEXT NOT NULL,
  project TEXT NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  version INTEGER NOT NULL,
  after TEXT NOT NULL
);
CREATE UNIQUE INDEX events_by_object ON events(id, version);
CREATE INDEX events_by_project ON events(project, seq);
CREATE INDEX events_by_change ON events(change);
CREATE TABLE keys(
  actor TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, answer TEXT NOT NULL, number INTEGER NOT NULL,
  PRIMARY KEY(actor, key)
) WITHOUT ROWID;
CREATE INDEX keys_by_number ON keys(number);
"];
