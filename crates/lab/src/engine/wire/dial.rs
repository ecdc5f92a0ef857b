//! Making a connection: TCP, TLS where the target has it, and HTTP's own greeting.
//!
//! Each part is timed by itself. A refusal says which check failed and what to do, since "connection error" has
//! sent people the wrong way for hours. Nothing is pooled: a connection is one place of the load.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::fault::Bad;
use crate::exit::Failure;
use crate::plan::Target;
use crate::tally::Fault;

/// What a request carries, in all protocols here.
pub(super) type Body = Full<Bytes>;

/// Bytes of one connection's place, above TLS. They survive a reconnect.
#[derive(Default)]
pub(super) struct Meter {
    read: Cell<u64>,
    written: Cell<u64>,
}

impl Meter {
    /// Bytes written and read since the last look.
    pub(super) fn take(&self) -> (u64, u64) {
        (self.written.take(), self.read.take())
    }
}

/// The sending half of a connection.
pub(super) enum Sender {
    One(http1::SendRequest<Body>),
    Two(http2::SendRequest<Body>),
}

/// A connection that was made.
pub(super) struct Dialled {
    pub sender: Sender,
    /// The task that moves its bytes.
    pub driver: AbortHandle,
    /// What the connection ended of, once it has.
    pub ended: Rc<RefCell<Option<Bad>>>,
    pub connect_ns: u64,
    pub tls_ns: Option<u64>,
}

/// Why a connection was not made, and what to do.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub bad: Bad,
    pub help: String,
}

/// Makes connections to one target.
pub(super) struct Dialer {
    target: Target,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    http2: bool,
    timeout: Duration,
}

impl Dialer {
    /// # Errors
    ///
    /// The target's name cannot be verified by TLS, or the plan has no TLS settings for it.
    pub(super) fn new(
        target: &Target,
        tls: Option<&Arc<rustls::ClientConfig>>,
        http2: bool,
        timeout: Duration,
    ) -> Result<Dialer, Failure> {
        let tls = target.tls.then(|| {
            let Some(config) = tls else {
                return Err(Failure::new(
                    format!(
                        "{} wants TLS, and the plan has no settings for it",
                        target.authority
                    ),
                    "add `tls` to the scenario",
                ));
            };
            let name = ServerName::try_from(target.host.clone()).map_err(|_| {
                let what = format!("`{}` is no name that a certificate can have", target.host);
                Failure::new(what, "use a host name or an address")
            })?;
            let mut config = rustls::ClientConfig::clone(config);
            let protocol: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
            config.alpn_protocols = vec![protocol.to_vec()];
            Ok((TlsConnector::from(Arc::new(config)), name))
        });
        Ok(Dialer {
            target: target.clone(),
            tls: tls.transpose()?,
            http2,
            timeout,
        })
    }

    /// Makes one connection. Connecting and the handshakes each have the flow's timeout.
    ///
    /// # Errors
    ///
    /// No address answers, TLS fails, or HTTP's greeting does.
    pub(super) async fn dial(&self, meter: &Rc<Meter>) -> Result<Dialled, Refused> {
        let begun = Instant::now();
        let tcp = self.connect().await?;
        let connect_ns = begun.elapsed().as_nanos() as u64;
        let greeted = tokio::time::timeout(self.timeout, self.greet(tcp, meter)).await;
        let (sender, driver, ended, tls_ns) = greeted.unwrap_or_else(|_| {
            let what = format!(
                "{} did not finish its handshake in time",
                self.target.authority
            );
            Err(Refused {
                bad: Bad::new(Fault::ConnectTimeout, what),
                help: "look whether the scheme is right (http:// or https://)".to_owned(),
            })
        })?;
        Ok(Dialled {
            sender,
            driver,
            ended,
            connect_ns,
            tls_ns,
        })
    }

    async fn connect(&self) -> Result<TcpStream, Refused> {
        let mut refused = Bad::new(Fault::Dns, "the name has no address");
        for address in &self.target.addresses {
            let connected = tokio::time::timeout(self.timeout, TcpStream::connect(address)).await;
            let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            match connected.and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp)) {
                Ok(tcp) => return Ok(tcp),
                Err(error) => refused = Bad::of(&error),
            }
        }
        let help = match refused.fault {
            Fault::Refused => "start the target, or mend the address",
            Fault::Ports => "use fewer new connections, or widen net.ipv4.ip_local_port_range",
            Fault::Descriptors => "raise the limit with `ulimit -n`, or ask for fewer connections",
            _ => "look whether the target is up and the address right",
        };
        refused.what = format!(
            "{} cannot be reached: {}",
            self.target.authority, refused.what
        );
        Err(Refused {
            bad: refused,
            help: help.to_owned(),
        })
    }

    async fn greet(&self, tcp: TcpStream, meter: &Rc<Meter>) -> Result<Greeted, Refused> {
        let begun = Instant::now();
        let (io, tls_ns) = match &self.tls {
            None => (Io::Plain(tcp), None),
            Some((connector, name)) => {
                let tls = connector.connect(name.clone(), tcp).await;
                let tls = tls.map_err(|error| self.tls_refused(&error))?;
                if self.http2 && tls.get_ref().1.alpn_protocol() != Some(b"h2") {
                    return Err(self.no_http2());
                }
                let ns = begun.elapsed().as_nanos() as u64;
                (Io::Tls(Box::new(tls)), Some(ns))
            }
        };
        let socket = TokioIo::new(Socket {
            io,
            meter: meter.clone(),
        });
        let ended = Rc::new(RefCell::new(None));
        let greeted = if self.http2 {
            let made = http2::Builder::new(Local).handshake(socket).await;
            made.map(|(sender, driver)| (Sender::Two(sender), drive(driver, &ended)))
        } else {
            let made = http1::Builder::new().handshake(socket).await;
            made.map(|(sender, driver)| (Sender::One(sender), drive(driver, &ended)))
        };
        match greeted {
            Ok((sender, driver)) => Ok((sender, driver, ended, tls_ns)),
            Err(error) => Err(Refused {
                bad: Bad::of(&error),
                help: "look whether the target speaks HTTP".to_owned(),
            }),
        }
    }

    fn no_http2(&self) -> Refused {
        let what = format!("{} does not offer HTTP/2 (ALPN h2)", self.target.authority);
        Refused {
            bad: Bad::new(Fault::Tls, what),
            help: "use HTTP/1.1, or switch HTTP/2 on at the target".to_owned(),
        }
    }

    fn tls_refused(&self, error: &io::Error) -> Refused {
        let inner = error
            .get_ref()
            .and_then(|e| e.downcast_ref::<rustls::Error>());
        let name = &self.target.authority;
        let Some(inner) = inner else {
            let mut bad = Bad::of(error);
            bad.what = format!("{name} ended the TLS handshake: {}", bad.what);
            bad.fault = Fault::Tls;
            let help = "look whether the target speaks TLS there".to_owned();
            return Refused { bad, help };
        };
        if let rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
        | rustls::Error::NoApplicationProtocol = inner
        {
            return self.no_http2();
        }
        let (what, help) = tls_words(inner, &self.target.host);
        Refused {
            bad: Bad::new(Fault::Tls, format!("{name}: {what}")),
            help,
        }
    }
}

type Greeted = (Sender, AbortHandle, Rc<RefCell<Option<Bad>>>, Option<u64>);

/// What a failure of TLS is, and what to do.
pub(super) fn tls_words(error: &rustls::Error, host: &str) -> (String, String) {
    let trust = "give the CA with `--ca FILE` (`tls.ca`), or check nothing with `--insecure`";
    let (what, help) = match error {
        rustls::Error::InvalidCertificate(wrong) => match wrong {
            CertificateError::UnknownIssuer => (
                "the certificate is signed by nobody who is trusted".to_owned(),
                trust,
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                (
                    format!("the certificate is not for `{host}`"),
                    "use the name that it is for, or check nothing with `--insecure`",
                )
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
                "the certificate has expired".to_owned(),
                "renew it, or check nothing with `--insecure`",
            ),
            other => (format!("the certificate does not verify: {other}"), trust),
        },
        rustls::Error::AlertReceived(alert) => (
            format!("the server refuses the client (TLS alert {alert:?})"),
            "give a client certificate that it accepts with `--cert FILE --key FILE` (`tls.cert`, `tls.key`)",
        ),
        rustls::Error::InvalidMessage(_) => (
            "the server does not speak TLS".to_owned(),
            "use http:// instead of https://",
        ),
        other => (
            format!("TLS fails: {other}"),
            "look at the target's TLS settings",
        ),
    };
    (what, help.to_owned())
}

/// Lets a connection run, and keeps what it ended of.
fn drive<E: std::error::Error + 'static>(
    driver: impl Future<Output = Result<(), E>> + 'static,
    ended: &Rc<RefCell<Option<Bad>>>,
) -> AbortHandle {
    let ended = ended.clone();
    let task = tokio::task::spawn_local(async move {
        if let Err(error) = driver.await {
            *ended.borrow_mut() = Some(Bad::of(&error));
        }
    });
    task.abort_handle()
}

/// Runs HTTP/2's own tasks on this thread.
#[derive(Clone)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(async {
            task.await;
        });
    }
}

/// A socket whose bytes are counted.
struct Socket {
    io: Io,
    meter: Rc<Meter>,
}

enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Io::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        };
        let read = &self.meter.read;
        read.set(read.get() + (buffer.filled().len() - before) as u64);
        polled
    }
}

impl Socket {
    fn wrote(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = polled {
            let written = &self.meter.written;
            written.set(written.get() + bytes as u64);
        }
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Io::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        };
        self.wrote(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bytes),
            Io::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bytes),
        };
        self.wrote(polled)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(tcp) => tcp.is_write_vectored(),
            Io::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Io::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Io::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
