//! JSON-RPC messages: read as far as an answer needs.

use std::borrow::Cow;

use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::target::body::Body;
use crate::target::refuse::typed;

/// A message. It is a request with an id and a method, a notification without an id, else a client's answer.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    /// A string or an integer, as it was written.
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
}

/// A value that is there, `null` too: an id of `null` is wrong, and none at all is a notification.
fn present<'de: 'a, 'a, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl Message<'_> {
    pub(super) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    /// The params as a type of their own.
    pub(super) fn params<'p, T: Deserialize<'p>>(&'p self) -> Result<T, Fault> {
        let params = self.params.map_or("{}", RawValue::get);
        serde_json::from_str(params)
            .map_err(|error| Fault::new(-32602, &format!("the params cannot be read: {error}")))
    }
}

/// Reads one message.
pub(super) fn read(bytes: &[u8]) -> Result<Message<'_>, Fault> {
    let message: Message<'_> = match serde_json::from_slice(bytes) {
        Ok(message) => message,
        Err(error) if error.is_data() => {
            return Err(Fault::invalid(&format!(
                "this is no JSON-RPC message: {error}"
            )));
        }
        Err(error) => {
            return Err(Fault::new(-32700, &format!("this is no JSON: {error}")));
        }
    };
    if message.jsonrpc != "2.0" {
        return Err(Fault::invalid("jsonrpc must be \"2.0\""));
    }
    let id = message.id.map(RawValue::get);
    if id.is_some_and(|id| !id.starts_with('"') && id.parse::<i64>().is_err()) {
        return Err(Fault::invalid("an id must be a string or an integer"));
    }
    Ok(message)
}

/// What `initialize` says.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialize {
    pub(super) protocol_version: String,
}

impl Initialize {
    pub(super) fn of(message: &Message<'_>) -> Result<Initialize, Fault> {
        message.params()
    }
}

/// An error of JSON-RPC.
pub(super) struct Fault {
    code: i32,
    what: String,
    data: Option<serde_json::Value>,
}

impl Fault {
    pub(super) fn new(code: i32, what: &str) -> Fault {
        Fault {
            code,
            what: what.to_owned(),
            data: None,
        }
    }

    pub(super) fn invalid(what: &str) -> Fault {
        Fault::new(-32600, what)
    }

    pub(super) fn with(self, data: serde_json::Value) -> Fault {
        Fault {
            data: Some(data),
            ..self
        }
    }

    pub(super) fn code(&self) -> i32 {
        self.code
    }

    /// The answer that carries it. Without an id it answers nothing in particular.
    pub(super) fn answer(self, status: StatusCode, id: Option<&RawValue>) -> Response<Body> {
        let mut error = json!({ "code": self.code, "message": self.what });
        if let Some(data) = self.data {
            error["data"] = data;
        }
        let id = id.map_or("null", RawValue::get);
        let json = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        typed(status, "application/json", json.into())
    }
}
