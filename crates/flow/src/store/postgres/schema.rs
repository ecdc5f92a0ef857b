//! The tables on PostgreSQL, and how older ones become these: one step a version, forward only.
//!
//! Each table but `about` has a tenant, and a policy that shows and takes only the rows of the session's tenant, also from
//! the owner of the tables (`FORCE`). Texts are compared byte by byte, as on SQLite.
//!
//! Facts and words are found by B-trees. A GIN index would not be used: below row-level security PostgreSQL lets only those
//! operators into an index scan that cannot tell of hidden rows (`LEAKPROOF`), and neither `@>` of jsonb nor `@@` of
//! tsvector is one.

/// The schema of all tables.
pub(super) const SCHEMA: &str = "weir_flow";
/// What `about` says of whose database it is.
pub(super) const APPLICATION: &str = "weir flow";
/// The first half of all advisory locks: "WFLW", as the header of SQLite's file has it.
pub(super) const LOCKS: i32 = 0x5746_4c57;

/// The tables that have tenants.
pub(super) const TABLES: &[&str] = &["objects", "edges", "facts", "words", "events", "keys"];

/// What makes each version from the one before; the last one's number is that of this program.
pub(super) const STEPS: &[&str] = &[r#"
CREATE TABLE about(application TEXT NOT NULL, version BIGINT NOT NULL);
CREATE DOMAIN word AS TEXT COLLATE "C";
CREATE TABLE objects(
  tenant_id word NOT NULL DEFAULT current_setting('weir.tenant'),
  row BIGINT NOT NULL,
  id word NOT NULL,
  kind word NOT NULL,
  project word NOT NULL,
  version BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  deleted BIGINT NOT NULL,
  type word,
  status word,
  parent word,
  path word,
  depth BIGINT,
  number BIGINT,
  name word,
  assignee word,
  priority BIGINT,
  until word,
  doc TEXT NOT NULL,
  PRIMARY KEY(tenant_id, row),
  UNIQUE(tenant_id, id)
);
CREATE INDEX objects_by_type ON objects(tenant_id, project, kind, deleted, type, seq);
CREATE INDEX objects_by_seq ON objects(tenant_id, project, kind, deleted, seq);
CREATE INDEX objects_by_kind ON objects(tenant_id, kind, deleted, seq);
CREATE INDEX objects_by_status ON objects(tenant_id, project, kind, deleted, status, priority, number);
CREATE INDEX objects_by_parent ON objects(tenant_id, parent, seq) WHERE parent IS NOT NULL;
CREATE INDEX objects_by_path ON objects(tenant_id, path) WHERE path IS NOT NULL;
CREATE INDEX objects_by_number ON objects(tenant_id, project, number) WHERE number IS NOT NULL;
CREATE INDEX objects_by_name ON objects(tenant_id, project, kind, name) WHERE name IS NOT NULL;
CREATE TABLE edges(
  tenant_id word NOT NULL DEFAULT current_setting('weir.tenant'),
  source word NOT NULL,
  relation word NOT NULL,
  target word NOT NULL,
  PRIMARY KEY(tenant_id, source, relation, target)
);
CREATE INDEX edges_by_target ON edges(tenant_id, target, relation, source);
CREATE TABLE facts(
  tenant_id word NOT NULL DEFAULT current_setting('weir.tenant'),
  project word NOT NULL,
  type word NOT NULL,
  place word NOT NULL,
  value word NOT NULL,
  object BIGINT NOT NULL,
  PRIMARY KEY(tenant_id, project, type, place, value, object)
);
CREATE INDEX facts_by_object ON facts(tenant_id, object);
CREATE TABLE words(
  tenant_id word NOT NULL DEFAULT current_setting('weir.tenant'),
  project word NOT NULL,
  word word NOT NULL,
  object BIGINT NOT NULL,
  weight BIGINT NOT NULL,
  PRIMARY KEY(tenant_id, project, word, object)
);
CREATE INDEX words_by_object ON words(tenant_id, object);
CREATE TABLE events(
  tenant_id word NOT NULL DEFAULT current_setting('weir.tenant'),
  seq BIGINT NOT NULL,
  change BIGINT NOT NULL,
  at word NOT NULL,
  actor word NOT NULL,
  tool word NOT NULL,
  project word NOT NULL,
  kind word NOT NULL,
  id word NOT NULL,
  version BIGINT NOT NULL,
  after TEXT NOT NULL,
  PRIMARY KEY(tenant_id, seq),
  UNIQUE(tenant_id, id, version)
);
CREATE INDEX events_by_project ON events(tenant_id, project, seq);
CREATE INDEX events_by_change ON events(tenant_id, change);
CREATE TABLE keys(
  tenant_id word NOT NULL DEFAULT current_setting('weir.tenant'),
  actor word NOT NULL,
  key word NOT NULL,
  digest word NOT NULL,
  answer TEXT NOT NULL,
  number BIGINT NOT NULL,
  PRIMARY KEY(tenant_id, actor, key)
);
CREATE INDEX keys_by_number ON keys(tenant_id, number);
"#];

/// The policies of the tables: without a tenant a session sees nothing and can add nothing.
pub(super) fn policies() -> String {
    let each = TABLES.iter().map(|table| {
        format!(
            "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;\n\
             ALTER TABLE {table} FORCE ROW LEVEL SECURITY;\n\
             DROP POLICY IF EXISTS of_tenant ON {table};\n\
             CREATE POLICY of_tenant ON {table} USING (tenant_id = current_setting('weir.tenant', true)) \
             WITH CHECK (tenant_id = current_setting('weir.tenant', true));\n"
        )
    });
    each.collect()
}
