//! Asks a Prometheus endpoint for its text, over plain HTTP/1.0, within a second.
//!
//! It runs beside the load on the watch's own thread, so it is bounded in time and in bytes, and opens one connection
//! for each question: once in a second, that costs nothing that matters. HTTP/1.0 has no chunks, so the body ends with
//! the connection. No TLS and no passwords: an endpoint that needs them is not read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::prometheus::{self, Kept, Selector};

/// The longest that one question may take.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The most bytes of one answer.
pub const ANSWER_BYTES_MAX: usize = 8 << 20;

/// An endpoint, its address looked up once.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// As it was given.
    pub url: String,
    address: SocketAddr,
    request: Vec<u8>,
    selectors: Vec<Selector>,
}

impl Endpoint {
    /// Checks the URL and the metrics (none means [`prometheus::DEFAULT_METRICS`]), and looks the address up.
    ///
    /// # Errors
    /// A sentence that says what is wrong and how to mend it.
    pub fn new(url: &str, metrics: &[String]) -> Result<Endpoint, String> {
        let selectors = selectors(metrics)?;
        // Asked of the text, so that no later error shows it.
        if url.contains('@') {
            return Err("a metrics URL with a password is not read".to_owned());
        }
        let uri: http::Uri = url
            .parse()
            .map_err(|_| format!("{url} is not a URL: write http://host:port/metrics"))?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
        let Some(authority) = authority else {
            return Err(format!(
                "{url} cannot be read: a metrics URL begins with http://"
            ));
        };
        let host = authority.host().trim_matches(['[', ']']);
        let address = (host, authority.port_u16().unwrap_or(80))
            .to_socket_addrs()
            .map_err(|error| format!("the host of {url} cannot be found: {error}"))?
            .next()
            .ok_or_else(|| format!("the host of {url} has no address"))?;
        let path = uri
            .path_and_query()
            .map_or("/metrics", |path| path.as_str());
        let request = format!(
            "GET {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain;version=0.0.4\r\n\
             User-Agent: weir-lab\r\nConnection: close\r\n\r\n"
        );
        Ok(Endpoint {
            url: url.to_owned(),
            address,
            request: request.into_bytes(),
            selectors,
        })
    }

    /// Asks once.
    ///
    /// # Errors
    /// A sentence that says what failed; the next question may do better.
    pub fn ask(&self) -> Result<Kept, String> {
        let text = self.fetch()?;
        Ok(prometheus::parse(&text, &self.selectors))
    }

    /// The text that the endpoint answers with.
    ///
    /// # Errors
    /// A sentence that says what failed; the next question may do better.
    pub fn fetch(&self) -> Result<String, String> {
        let answer = self
            .exchange()
            .map_err(|error| format!("{}: {error}", self.url))?;
        let body = split_answer(&answer).map_err(|error| format!("{}: {error}", self.url))?;
        Ok(String::from_utf8_lossy(body).into_owned())
    }

    fn exchange(&self) -> std::io::Result<Vec<u8>> {
        let until = Instant::now() + ANSWER_WITHIN;
        let mut stream = TcpStream::connect_timeout(&self.address, ANSWER_WITHIN)?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        stream.write_all(&self.request)?;
        let mut answer = Vec::new();
        let mut part = [0; 16 * 1024];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    "the answer did not end within a second",
                ));
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut part) {
                Ok(0) => return Ok(answer),
                Ok(count) if answer.len() + count > ANSWER_BYTES_MAX => {
                    return Err(std::io::Error::other("the answer is larger than 8 MiB"));
                }
                Ok(count) => answer.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn selectors(metrics: &[String]) -> Result<Vec<Selector>, String> {
    if metrics.len() > prometheus::SELECTORS_MAX {
        return Err(format!(
            "{} metrics of one endpoint are asked for: {} is the most",
            metrics.len(),
            prometheus::SELECTORS_MAX
        ));
    }
    if metrics.is_empty() {
        let defaults = prometheus::DEFAULT_METRICS.iter();
        return defaults.map(|metric| Selector::parse(metric)).collect();
    }
    metrics
        .iter()
        .map(|metric| Selector::parse(metric))
        .collect()
}

/// The body of an answer with status 200, cut at its `Content-Length` when that is shorter.
fn split_answer(answer: &[u8]) -> Result<&[u8], String> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    let body_at = match head.parse(answer) {
        Ok(httparse::Status::Complete(at)) => at,
        Ok(httparse::Status::Partial) => return Err("the answer ends in its head".to_owned()),
        Err(error) => return Err(format!("the answer is not HTTP: {error}")),
    };
    match head.code {
        Some(200) => {}
        code => return Err(format!("the answer has status {}", code.unwrap_or(0))),
    }
    let header = |name: &str| {
        head.headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
    };
    if header("transfer-encoding").is_some() {
        return Err("the answer is in chunks, which HTTP/1.0 does not have".to_owned());
    }
    let body = &answer[body_at..];
    let length: Option<usize> = header("content-length")
        .and_then(|value| std::str::from_utf8(value).ok()?.trim().parse().ok());
    match length {
        Some(length) if length > body.len() => Err("the answer is shorter than it says".to_owned()),
        Some(length) => Ok(&body[..length]),
        None => Ok(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_split() {
        let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na 1 and more";
        assert_eq!(split_answer(ok).unwrap(), b"a ");
        assert_eq!(split_answer(b"HTTP/1.0 200 OK\r\n\r\na 1").unwrap(), b"a 1");
        let refused: [(&[u8], &str); 5] = [
            (b"", "ends in its head"),
            (b"SSH-2.0-x\r\n\r\n", "not HTTP"),
            (b"HTTP/1.1 503 No\r\n\r\n", "status 503"),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "in chunks",
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", "shorter"),
        ];
        for (answer, want) in refused {
            let error = split_answer(answer).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn urls_are_refused_before_the_run() {
        let cases = [
            ("not a url", "is not a URL"),
            ("https://127.0.0.1/metrics", "begins with http://"),
            ("/metrics", "begins with http://"),
            ("https://a:b@127.0.0.1/metrics", "password"),
            ("http://a:b@not a host/", "password"),
        ];
        for (url, want) in cases {
            let error = Endpoint::new(url, &[]).unwrap_err();
            assert!(error.contains(want), "{url}: {error}");
        }
        let many: Vec<String> = (0..40).map(|i| format!("m{i}")).collect();
        let error = Endpoint::new("http://127.0.0.1:1/", &many).unwrap_err();
        assert!(error.contains("32 is the most"), "{error}");
        let error = Endpoint::new("http://127.0.0.1:1/", &["a b".to_owned()]).unwrap_err();
        assert!(error.contains("is not a metric"), "{error}");
    }
}
