//! The engine over bytes that are all there: for tests and fuzzing, without a socket, a runtime or
//! a clock.
//!
//! What a peer sends is given in pieces, as reads would bring it, and then the stream ends. What
//! the engine made of it is told as text, so that two ways of cutting the same bytes can be
//! compared.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    ClientConnection, ConnectionSettings, Error, Field, Form, Framing, ServerConnection, Socket,
    Thread, Version,
};

/// Messages told of one connection; more than a test needs.
const MESSAGES_MAX: usize = 1000;

/// A stream that brings these pieces, one a read, and then ends. What is written is kept. An empty
/// piece stands for silence until something is written.
#[derive(Debug, Default)]
pub struct Script {
    pieces: VecDeque<Vec<u8>>,
    pub written: Vec<u8>,
}

impl Script {
    pub fn new<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Script {
        Script {
            pieces: pieces.into_iter().map(<[u8]>::to_vec).collect(),
            written: Vec::new(),
        }
    }
}

impl Socket for Script {}

impl AsyncRead for Script {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.pieces.front().is_some_and(Vec::is_empty) {
            return Poll::Pending;
        }
        if let Some(mut piece) = self.pieces.pop_front() {
            let now = piece.len().min(buffer.remaining());
            buffer.put_slice(&piece[..now]);
            if now < piece.len() {
                piece.drain(..now);
                self.pieces.push_front(piece);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.extend_from_slice(bytes);
        if self.pieces.front().is_some_and(Vec::is_empty) {
            self.pieces.pop_front();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Runs what never has to wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a script never waits"),
    }
}

/// What a server made of what a client sent. Each request is answered with an empty 200.
pub fn requests<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    settings: &ConnectionSettings,
) -> String {
    let (thread, bounds) = (Thread::new(settings.tick_ms()), Rc::new(settings.clone()));
    let mut told = String::new();
    now(async {
        let mut server = ServerConnection::new(Script::new(pieces), &thread, &bounds);
        for _ in 0..MESSAGES_MAX {
            match exchange(&mut server, &mut told).await {
                Ok(true) => {}
                Ok(false) => return told.push_str("end\n"),
                Err(error) => return tell_error(error, &mut told),
            }
        }
    });
    told
}

async fn exchange(server: &mut ServerConnection<Script>, told: &mut String) -> Result<bool, Error> {
    let Some(request) = server.head().await? else {
        return Ok(false);
    };
    let version = request.version();
    let form = match request.form() {
        Form::Origin => "origin",
        Form::Absolute => "absolute",
        Form::Authority => "authority",
        Form::Asterisk => "asterisk",
    };
    let (method, target) = (request.method(), request.target());
    let _ = write!(told, "{} {} ", method.escape_ascii(), target.escape_ascii());
    let _ = write!(told, "{form} of \"{}\"", request.authority().escape_ascii());
    tell_framing(version, request.framing(), told);
    for (flag, name) in [
        (request.expects_continue(), "expects"),
        (request.wants_upgrade(), "upgrade"),
    ] {
        if flag {
            let _ = write!(told, " {name}");
        }
    }
    told.push('\n');
    tell_fields(request.fields().iter(), "", told);
    let mut body = Vec::new();
    while let Some(piece) = server.piece().await? {
        body.extend_from_slice(piece);
    }
    tell_body(&body, told);
    tell_fields(server.trailers().iter(), "trailer ", told);
    server.respond(200, [], Framing::None)?;
    server.end()?;
    Ok(true)
}

/// What a client made of what a server sent to these methods, one request after the other on one
/// connection; an empty piece stands before what is sent only after the next request.
pub fn answers<'p>(
    methods: &[&[u8]],
    pieces: impl IntoIterator<Item = &'p [u8]>,
    settings: &ConnectionSettings,
) -> String {
    let (thread, bounds) = (Thread::new(settings.tick_ms()), Rc::new(settings.clone()));
    let mut told = String::new();
    now(async {
        let mut client = ClientConnection::new(Script::new(pieces), &thread, &bounds);
        for method in methods {
            if let Err(error) = ask(&mut client, method, &mut told).await {
                return tell_error(error, &mut told);
            }
            if !client.is_silent() {
                return told.push_str("close\n");
            }
        }
        told.push_str("keep\n");
    });
    told
}

async fn ask(
    client: &mut ClientConnection<Script>,
    method: &[u8],
    told: &mut String,
) -> Result<(), Error> {
    client.request(method, b"/", b"a", [], Framing::None)?;
    client.flush().await?;
    loop {
        let answer = client.answer().await?;
        let _ = write!(
            told,
            "{} \"{}\"",
            answer.status(),
            answer.reason().escape_ascii()
        );
        tell_framing(answer.version(), answer.framing(), told);
        told.push('\n');
        tell_fields(answer.fields().iter(), "", told);
        if !answer.is_informational() {
            break;
        }
    }
    let mut body = Vec::new();
    while let Some(piece) = client.piece().await? {
        body.extend_from_slice(piece);
    }
    tell_body(&body, told);
    tell_fields(client.trailers().iter(), "trailer ", told);
    Ok(())
}

fn tell_framing(version: Version, framing: Framing, told: &mut String) {
    if version == Version::Http10 {
        told.push_str(" 1.0");
    }
    let _ = match framing {
        Framing::None => Ok(()),
        Framing::Length(length) => write!(told, " length {length}"),
        Framing::Chunked => write!(told, " chunked"),
        Framing::UntilClose => write!(told, " until close"),
    };
}

fn tell_fields<'a>(fields: impl Iterator<Item = Field<'a>>, what: &str, told: &mut String) {
    for field in fields {
        let (name, value) = (field.name.escape_ascii(), field.value.escape_ascii());
        let _ = writeln!(told, "  {what}{name}: {value} [{:?}]", field.kind);
    }
}

fn tell_body(body: &[u8], told: &mut String) {
    if !body.is_empty() {
        let _ = writeln!(told, "  body \"{}\"", body.escape_ascii());
    }
}

fn tell_error(error: Error, told: &mut String) {
    let _ = match error {
        Error::Fault(fault) => writeln!(told, "{} {fault:?}", fault.status()),
        Error::Cut => writeln!(told, "cut"),
        other => writeln!(told, "{other:?}"),
    };
}
