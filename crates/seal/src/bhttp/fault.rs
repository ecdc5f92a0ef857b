//! What can be wrong with a message, and the status that says so to whoever sent it in HTTP/1.1.
//!
//! Each refusal has a name, so that a test can tell one from another. None holds bytes of the message.

use std::fmt;

/// Makes the table: one line a fault, with its status and its message.
macro_rules! faults {
    ($($name:ident $status:literal $text:literal;)*) => {
        /// What is wrong with a message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Fault {
            $(#[doc = $text] $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Fault] = &[$(Fault::$name),*];

            /// The status for the sender of a request with this fault. In an answer each of them is a 502.
            pub const fn status(self) -> u16 {
                match self { $(Fault::$name => $status,)* }
            }

            /// One sentence for the sender.
            pub const fn text(self) -> &'static str {
                match self { $(Fault::$name => $text,)* }
            }
        }
    };
}

faults! {
    // The form.
    Truncated 400 "The message ends before its end.";
    Framing 400 "The framing indicator is not one of this kind of message.";
    Section 400 "A field section ends inside a field.";
    Padding 400 "There is something else than zeros after the message.";
    // Limits.
    HeadTooLarge 431 "The head or the trailers are too large.";
    TooManyFields 431 "There are too many fields.";
    ContentTooLong 413 "The content is too long.";
    TooManyInterim 502 "There are too many informational responses.";
    // The request line.
    Method 400 "The method is not a token.";
    Connect 501 "CONNECT cannot be relayed.";
    Scheme 400 "The scheme is neither http nor https.";
    Authority 400 "The authority is not a host and perhaps a port.";
    Path 400 "The path does not begin with a slash, or holds a byte that it must not.";
    // Responses.
    Status 502 "The status is out of range.";
    Switching 501 "The response switches protocols.";
    // Fields.
    FieldName 400 "A field's name is not a token in lower case.";
    FieldValue 400 "A field's value holds a byte that it must not, or has whitespace around it.";
    ConnectionField 400 "A field is meant for one connection alone.";
    Upgrade 501 "An upgrade of the connection cannot be relayed.";
    TrailerField 400 "The trailers hold a field that frames or routes a message.";
    Host 400 "There is more than one Host, or it is not the authority.";
    // Content.
    ContentLength 400 "The content is longer or shorter than its length says.";
    ContentUnasked 502 "There is content where none may be.";
    // Ours.
    Misuse 500 "The message was written in the wrong order.";
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Fault {}
