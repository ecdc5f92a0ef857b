//! What disguises come to.

use super::*;

fn lines(text: &str, dialect: Dialect) -> Vec<String> {
    let mut out = Plain::default();
    plain(text.as_bytes(), dialect, &mut out);
    String::from_utf8(out.text)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn has(text: &str, line: &str) {
    let found = lines(text, Dialect::Posix);
    assert!(
        found.iter().any(|found| found == line),
        "{text:?}: {found:?}"
    );
}

#[test]
fn quotes_and_escapes_are_undone() {
    for text in [
        "rm -rf /x",
        "r''m -rf /x",
        "r\"\"m -r'f' /x",
        r"\rm -rf /x",
        r"r\m -r\f /x",
        r"$'\162\155' -rf /x",
        r"$'\x72\x6d' -rf /x",
        r"r$'\u006d' -rf /x",
        r"rm$'\x20'-rf /x",
        "r\\\nm -rf /x",
        "/bin/rm -rf /x # gone",
        "RM -rf /x",
        "'rm' '-rf' '/x'",
        "{ rm -rf /x; }",
        "(rm -rf /x)",
        "true && rm -rf /x",
        "if true; then rm -rf /x; fi",
        "rm -rf //x/./y/..",
    ] {
        has(text, "rm -rf /x");
    }
}

#[test]
fn variables_and_expansions_are_undone() {
    for text in [
        "a=r;b=m;$a$b -rf /x",
        "a=r; b=m; ${a}${b} -rf /x",
        "rm${IFS}-rf${IFS}/x",
        "rm$IFS-rf$IFS$9/x",
        "rm${IFS#?}-rf${IFS%%?}/x",
        "v=IFS; rm${!v}-rf${!v}/x",
        "IFS=,;CMD=r,m;$CMD -rf /x",
        "IFS=,;CMD=rm,-rf,/x;$CMD",
        "${x:-rm} -rf /x",
        "x=arms; ${x:1:2} -rf /x",
        "r$@m -rf /x",
        "r$*m -rf /x",
        "r${none}m -rf /x",
        "{rm,-rf,/x}",
        "/bin/r? -rf /x",
        "/b*/r[m] -rf /x",
        "rm -rf ${PWD:0:1}x",
        "x=RM; ${x,,} -rf /x",
        "x=rXm; ${x/X/} -rf /x",
        "for c in rm; do $c -rf /x; done",
    ] {
        has(text, "rm -rf /x");
    }
    has("/bin/{rm,} -rf /x", "rm /bin/ -rf /x");
    has("cat /e?c/p?sswd", "cat /etc/passwd");
    has("cat ~/.s*h/id_r*", "cat ~/.ssh/id_rsa");
}

#[test]
fn substitutions_are_undone() {
    for text in [
        "$(echo rm) -rf /x",
        "`echo rm` -rf /x",
        "`rm` -rf /x",
        "$(printf %s rm) -rf /x",
        "$(printf 'r%s' m) -rf /x",
        "$(printf '\\162\\155') -rf /x",
        "$(echo cm0K | base64 -d) -rf /x",
        "$(echo mr | rev) -rf /x",
        "$(echo ez | tr a-z n-za-m) -rf /x",
        "$(which rm) -rf /x",
        "$(echo $(echo $(echo $(echo $(echo $(echo rm)))))) -rf /x",
        "eval 'rm -rf /x'",
        "eval \"$(echo cm0gLXJmIC94 | base64 --decode)\"",
        "sh -c 'rm -rf /x'",
        "bash -lc \"rm -rf /x\"",
        "bash <<< 'rm -rf /x'",
        "echo rm -rf /x | sh",
        "echo cm0gLXJmIC94 | base64 -d | sh",
        "base64 -d <<< cm0gLXJmIC94 | bash",
        "echo 726d202d7266202f78 | xxd -r -p | bash",
        "echo 'x/ fr- mr' | rev | bash",
        "bash <<EOF\nrm -rf /x\nEOF\n",
        "cat <<'EOF' | sh\nrm -rf /x\nEOF\ntrue",
        "python3 -c \"import os; os.system('rm -rf /x')\"",
        "python -c \"import subprocess; subprocess.run(['rm', '-rf', '/x'])\"",
        "perl -e 'system(\"rm -rf /x\")'",
    ] {
        has(text, "rm -rf /x");
    }
}

#[test]
fn what_runs_a_command_is_taken_off() {
    for text in [
        "sudo rm -rf /x",
        "sudo -u root -E rm -rf /x",
        "env A=b rm -rf /x",
        "env -i A=b rm -rf /x",
        "A=b rm -rf /x",
        "command rm -rf /x",
        "nohup nice -n 5 rm -rf /x &",
        "timeout -s KILL 5 rm -rf /x",
        "busybox rm -rf /x",
        "echo y | xargs -n 1 rm -rf /x",
        "find . -exec rm -rf /x ;",
        "ssh -p 22 host 'rm -rf /x'",
        "docker exec -it box rm -rf /x",
        "kubectl exec pod -- rm -rf /x",
        "su root -c 'rm -rf /x'",
        "alias ls='rm -rf /x'",
        "tmux new -d 'rm -rf /x'",
        "sh -c 'sudo env rm -rf /x'",
    ] {
        has(text, "rm -rf /x");
    }
}

#[test]
fn windows_disguises_are_undone() {
    let has = |text: &str, line: &str| {
        let found = lines(text, Dialect::Windows);
        assert!(
            found.iter().any(|found| found == line),
            "{text:?}: {found:?}"
        );
    };
    has("d^e^l /s C:\\x", "del /s C:\\x");
    has("%COMSPEC% /c del /s C:\\x", "del /s C:\\x");
    has("Rem`ove-Item -Recurse C:\\x", "remove-item -Recurse C:\\x");
    has("C:\\Windows\\System32\\cmd.exe /c \"del /s x\"", "del /s x");
    let units = "Remove-Item x".encode_utf16().flat_map(u16::to_le_bytes);
    let hex: String = units.map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex.len(), 52);
    has(
        "powershell -nop -enc UgBlAG0AbwB2AGUALQBJAHQAZQBtACAAeAA=",
        "remove-item x",
    );
}

#[test]
fn blanks_inside_a_word_start_no_command() {
    assert_eq!(
        lines("echo 'a; rm -rf /'", Dialect::Posix),
        ["echo a;\trm\t-rf\t/"]
    );
    assert_eq!(lines("echo a '|' rm", Dialect::Posix), ["echo a \t| rm"]);
    assert_eq!(lines("echo a | rm", Dialect::Posix), ["echo a | rm"]);
    assert_eq!(lines("x 2>&1 >/dev/null > y", Dialect::Posix), ["x > y"]);
    assert_eq!(
        lines("cat <<E > f\nrm -rf /\nE\nls", Dialect::Posix),
        ["cat > f", "ls"]
    );
}

#[test]
fn a_line_knows_where_it_came_from() {
    let text = "ls; sh -c 'rm x'; true";
    let mut out = Plain::default();
    plain(text.as_bytes(), Dialect::Posix, &mut out);
    let at = memchr::memmem::find(&out.text, b"\nrm x").unwrap();
    let line = out.line(at + 1).unwrap();
    assert_eq!(&text[line.source.clone()], " sh -c 'rm x';");
}

#[test]
fn work_is_bounded_and_a_bound_is_said() {
    let deep = "$(".repeat(4000);
    let doubling: String = (0..40).map(|i| format!("a{}=$a{i}$a{i};", i + 1)).collect();
    let braces = "{a,b}".repeat(30);
    for text in [deep, format!("a0=xxxxxxxxxx;{doubling}$a40"), braces] {
        let mut out = Plain::default();
        plain(text.as_bytes(), Dialect::Posix, &mut out);
        assert!(out.obscured, "{}", &text[..20]);
        assert!(out.text.len() <= WORK_BYTES_MIN.max(text.len() * WORK_PER_BYTE_MAX) + 16);
    }
    for unit in [
        "'", "\"", "`", "$'", "${", "\\", "{", "<<E\n", "(", "a=$a", "$(echo ", "[", "*",
    ] {
        for dialect in [Dialect::Posix, Dialect::Windows] {
            plain(unit.repeat(5000).as_bytes(), dialect, &mut Plain::default());
        }
    }
}
