//! Whether two URIs name one resource, as RFC 9449 §4.3 asks of `htu`: without query and fragment, after normalization by
//! syntax and scheme (RFC 3986 §6.2.2, §6.2.3).

/// Longest URI that is compared, in bytes.
const URI_BYTES_MAX: usize = 8 << 10;

/// Whether two absolute URIs of `http` or `https` name one resource. What is no such URI names none.
pub fn same_resource(one: &str, other: &str) -> bool {
    match (normal(one), normal(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Scheme, host in lower case, port, and path.
fn normal(uri: &str) -> Option<(bool, String, u16, String)> {
    if uri.len() > URI_BYTES_MAX || !uri.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
        return None;
    }
    let (scheme, rest) = uri.split_once("://")?;
    let is_https = match () {
        () if scheme.eq_ignore_ascii_case("https") => true,
        () if scheme.eq_ignore_ascii_case("http") => false,
        () => return None,
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    // A user in a URI names another thing to a careless reader.
    if authority.is_empty() || authority.contains(['@', '\\']) {
        return None;
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port = match port {
        None | Some("") => {
            if is_https {
                443
            } else {
                80
            }
        }
        Some(port) => port.parse().ok()?,
    };
    let path = without_dots(&decoded(path)?);
    (!host.is_empty()).then(|| (is_https, host.to_ascii_lowercase(), port, path))
}

/// Escapes of unreserved characters undone, the others in upper case.
fn decoded(path: &str) -> Option<String> {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 3)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let byte = u8::from_str_radix(digits, 16).ok()?;
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => {
                out.push('%');
                out.push_str(&digits.to_ascii_uppercase());
            }
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Some(out)
}

/// RFC 3986 §5.2.4.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut ends_in_dots = false;
    for segment in path.split('/').skip(1) {
        ends_in_dots = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    let end = if ends_in_dots { "/" } else { "" };
    match (kept.is_empty(), ends_in_dots) {
        (true, _) => "/".to_owned(),
        (false, _) => format!("/{}{end}", kept.join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::same_resource;

    #[test]
    fn one_resource_is_written_in_many_ways() {
        let uri = "https://gate.example/mcp/files";
        for same in [
            uri,
            "HTTPS://Gate.Example/mcp/files",
            "https://gate.example:443/mcp/files",
            "https://gate.example:/mcp/files",
            "https://gate.example/mcp/files?a=b#c",
            "https://gate.example/mcp/%66iles",
            "https://gate.example/mcp/./x/../files",
        ] {
            assert!(same_resource(same, uri), "{same}");
        }
        assert!(same_resource(
            "https://gate.example",
            "https://gate.example/"
        ));
        assert!(same_resource(
            "https://a.example/%7euser/%2f",
            "https://a.example/~user/%2F"
        ));
    }

    #[test]
    fn other_resources_are_others() {
        let uri = "https://gate.example/mcp/files";
        for other in [
            "http://gate.example/mcp/files",
            "https://gate.example:8443/mcp/files",
            "https://gate.example.evil.example/mcp/files",
            "https://evil@gate.example/mcp/files",
            "https://gate.example/mcp/files/",
            "https://gate.example/mcp//files",
            "https://gate.example/mcp/Files",
            "https://gate.example/mcp%2Ffiles",
            "https://gate.example/mcp/fil%zzes",
            "https://gate.example\\/mcp/files",
            "/mcp/files",
            "mcp/files",
            "ftp://gate.example/mcp/files",
            "https:///mcp/files",
            "https://gate.example/mcp/files\n",
            "",
        ] {
            assert!(!same_resource(other, uri), "{other}");
        }
        assert!(!same_resource("x", "x"));
    }
}
