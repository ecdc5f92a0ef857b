-- doc
CREATE TABLE IF NOT EXISTS app.users (id bigint PRIMARY KEY, name text);
CREATE VIEW v AS SELECT id FROM users u JOIN t ON t.x = u.id;
CREATE INDEX i ON users (name);
CREATE FUNCTION f(a int) RETURNS int AS $$ BEGIN RETURN 1; END $$ LANGUAGE plpgsql;
ALTER TABLE users ADD COLUMN z int;
SELECT count(*) FROM users;
