//! Tools that are named after a command or take statements of a database: the line that their call is.
//!
//! A shell is one way among others to delete a branch or a table. What a rule refuses there is refused here, because
//! the call is read as the command that it stands for.

use super::Argument;
use super::role::words;

/// Commands that tools are named after, as `git_push` is.
const COMMANDS: [&[u8]; 9] = [
    b"git",
    b"kubectl",
    b"helm",
    b"terraform",
    b"tofu",
    b"pulumi",
    b"docker",
    b"podman",
    b"redis",
];
/// What a tool is named after that speaks to a database.
const DATABASES: [&[u8]; 22] = [
    b"sql",
    b"psql",
    b"postgres",
    b"postgresql",
    b"pg",
    b"mysql",
    b"mariadb",
    b"sqlite",
    b"sqlite3",
    b"mssql",
    b"snowflake",
    b"bigquery",
    b"redshift",
    b"clickhouse",
    b"duckdb",
    b"database",
    b"databases",
    b"db",
    b"mongo",
    b"mongodb",
    b"supabase",
    b"neon",
];
/// Words of a call that become words of its line.
const WORDS_MAX: usize = 64;

/// Whether an argument is a statement of a database.
pub(super) fn is_statement(tool: &str, path: &str) -> bool {
    let last = path.split('[').next().unwrap_or(path);
    let last = last.rsplit('.').next().unwrap_or(last);
    let (mut statement, mut text, mut database) = (false, false, false);
    words(last, &mut |word| {
        statement |= matches!(
            word,
            b"sql" | b"statement" | b"statements" | b"stmt" | b"ddl"
        );
        text |= matches!(
            word,
            b"query" | b"queries" | b"command" | b"text" | b"q" | b"script" | b"operation"
        );
    });
    if !statement && text {
        words(tool, &mut |word| database |= DATABASES.contains(&word));
    }
    statement || database
}

/// A statement without its comments, in the line of a command that runs it. What looks like a comment may stand in quotes,
/// which each database reads in its own way, so that a statement that has any is there as it came, too.
pub(super) fn statement(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let end = match text[at..] {
            [b'/', b'*', ..] => memchr::memmem::find(&text[at..], b"*/").map(|end| end + 2),
            [b'-', b'-', ..] => memchr::memchr(b'\n', &text[at..]),
            _ => {
                out.push(text[at]);
                at += 1;
                continue;
            }
        };
        out.push(b' ');
        at = end.map_or(text.len(), |end| at + end);
    }
    if out != text {
        out.extend_from_slice(b" ; ");
        out.extend_from_slice(text);
    }
    out
}

/// Whether a tool is named after a command, so that its flags count.
pub(crate) fn is_named_after_command(tool: &str) -> bool {
    let mut named = false;
    words(tool, &mut |word| named |= COMMANDS.contains(&word));
    named
}

/// The words of the command that a call stands for; none where it stands for none.
pub(super) fn line(tool: &str, args: &[Argument<'_>]) -> Vec<Vec<u8>> {
    let mut line: Vec<Vec<u8>> = Vec::new();
    let (mut drops, mut held) = (false, "");
    words(tool, &mut |word| {
        if !line.is_empty() || COMMANDS.contains(&word) {
            line.push(word.to_vec());
        }
        drops |= matches!(
            word,
            b"drop" | b"truncate" | b"delete" | b"destroy" | b"remove"
        );
        held = match word {
            b"database" | b"schema" | b"namespace" | b"cluster" => "drop database",
            b"table" | b"collection" if held.is_empty() => "drop table",
            _ => held,
        };
    });
    if line.is_empty() {
        return match drops && !held.is_empty() {
            true => vec![b"sql".to_vec(), held.as_bytes().to_vec()],
            false => line,
        };
    }
    for Argument { path, text } in args.iter().take(WORDS_MAX) {
        let mut name = Vec::new();
        let last = path.split('[').next().unwrap_or(path);
        words(last.rsplit('.').next().unwrap_or(last), &mut |word| {
            name.push(b'-');
            name.extend_from_slice(word);
        });
        match (name.as_slice(), *text) {
            (b"-message" | b"-body" | b"-title" | b"-description" | b"-comment", _) => {}
            (b"-mode", mode) => line.push([b"--", mode.as_bytes()].concat()),
            (_, "true") => line.push([b"-", name.as_slice()].concat()),
            (_, text) => line.push(text.as_bytes().to_vec()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(tool: &str, args: &[(&str, &str)]) -> String {
        let args: Vec<_> = args
            .iter()
            .map(|(path, text)| Argument { path, text })
            .collect();
        String::from_utf8(line(tool, &args).join(&b' ')).unwrap()
    }

    #[test]
    fn a_tool_that_is_named_after_a_command_is_that_command() {
        for (tool, args, text) in [
            (
                "git_push",
                &[("branch", "main"), ("force", "true")][..],
                "git push main --force",
            ),
            ("gitReset", &[("mode", "hard")], "git reset --hard"),
            (
                "git_commit",
                &[("message", "--force"), ("no_verify", "true")],
                "git commit --no-verify",
            ),
            (
                "kubectl_delete",
                &[("resource", "namespace")],
                "kubectl delete namespace",
            ),
            ("delete_namespace", &[], "sql drop database"),
            ("delete_row", &[("table", "x")], ""),
            ("list_tables", &[], ""),
        ] {
            assert_eq!(text_of(tool, args), text, "{tool}");
        }
    }

    #[test]
    fn statements_are_told_by_their_names() {
        for (tool, path, is) in [
            ("query", "sql", true),
            ("execute_sql", "query", true),
            ("mysql_query", "queries[0]", true),
            ("search", "query", false),
            ("postgres", "name", false),
        ] {
            assert_eq!(is_statement(tool, path), is, "{tool} {path}");
        }
        let both = b"drop table  \nt ; drop/* a */table --x\nt";
        assert_eq!(statement(b"drop/* a */table --x\nt"), both);
    }
}
