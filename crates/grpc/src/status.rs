//! The status of a call: a code and a message, as trailers and back.

use std::fmt;

use http::{HeaderMap, HeaderValue, StatusCode};

pub(crate) const STATUS: &str = "grpc-status";
pub(crate) const MESSAGE: &str = "grpc-message";

macro_rules! codes {
    ($($number:literal $code:ident),*) => {
        /// The codes of gRPC.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $($code = $number,)*
        }

        impl Code {
            fn from_number(number: &str) -> Code {
                match number.parse() {
                    $(Ok($number) => Code::$code,)*
                    _ => Code::Unknown,
                }
            }
        }
    };
}

codes! {
    0 Ok, 1 Canceled, 2 Unknown, 3 InvalidArgument, 4 DeadlineExceeded, 5 NotFound, 6 AlreadyExists,
    7 PermissionDenied, 8 ResourceExhausted, 9 FailedPrecondition, 10 Aborted, 11 OutOfRange, 12 Unimplemented,
    13 Internal, 14 Unavailable, 15 DataLoss, 16 Unauthenticated
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name of "OK" is the only one in capitals.
        match self {
            Code::Ok => f.write_str("OK"),
            code => fmt::Debug::fmt(code, f),
        }
    }
}

/// The end of a call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {code} desc = {message}")]
pub struct Status {
    pub code: Code,
    pub message: String,
}

impl Status {
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code, message: message.into() }
    }

    pub fn unavailable(message: impl Into<String>) -> Status {
        Status::new(Code::Unavailable, message)
    }

    pub fn internal(message: impl Into<String>) -> Status {
        Status::new(Code::Internal, message)
    }

    pub fn deadline_exceeded() -> Status {
        Status::new(Code::DeadlineExceeded, "context deadline exceeded")
    }

    /// A failed connection or stream.
    pub(crate) fn transport(what: &str, error: &(dyn std::error::Error + 'static)) -> Status {
        let mut message = format!("{what}: {error}");
        let mut source = error.source();
        while let Some(error) = source {
            message.push_str(": ");
            message.push_str(&error.to_string());
            source = error.source();
        }
        Status::unavailable(message)
    }

    /// The status in trailers, or in the headers of a response without a body; `None` if there is none.
    pub(crate) fn from_trailers(trailers: &HeaderMap) -> Option<Result<(), Status>> {
        let text = |name: &str| trailers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let code = Code::from_number(text(STATUS)?.as_ref());
        let message = text(MESSAGE).map(|message| decode(&message)).unwrap_or_default();
        Some(if code == Code::Ok { Ok(()) } else { Err(Status { code, message }) })
    }

    /// The status of an HTTP response that is not gRPC's.
    pub(crate) fn from_http(code: StatusCode) -> Status {
        let kind = match code.as_u16() {
            400 => Code::Internal,
            401 => Code::Unauthenticated,
            403 => Code::PermissionDenied,
            404 => Code::Unimplemented,
            429 | 502..=504 => Code::Unavailable,
            _ => Code::Unknown,
        };
        Status::new(kind, format!("unexpected HTTP status code received from server: {code}"))
    }
}

/// The trailers of a call.
pub(crate) fn trailers(result: &Result<(), Status>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    let code = result.as_ref().map_or_else(|status| status.code, |()| Code::Ok);
    trailers.insert(STATUS, HeaderValue::from(code as u16));
    if let Err(status) = result
        && let Ok(message) = HeaderValue::from_str(&encode(&status.message))
    {
        trailers.insert(MESSAGE, message);
    }
    trailers
}

/// Percent-encodes what a header cannot carry.
fn encode(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b'%' | 0..=0x1f | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
            _ => encoded.push(char::from(byte)),
        }
    }
    encoded
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, message: &str, expected: Result<(), (Code, &str)>) {
        let mut trailers = HeaderMap::new();
        trailers.insert(STATUS, code.parse().unwrap());
        trailers.insert(MESSAGE, message.parse().unwrap());
        let expected = expected.map_err(|(code, message)| Status::new(code, message));
        assert_eq!(Status::from_trailers(&trailers), Some(expected));
    }

    #[test]
    fn trailers_are_read() {
        check("0", "", Ok(()));
        check("5", "no %22x%22 here", Err((Code::NotFound, "no \"x\" here")));
        check("16", "100%", Err((Code::Unauthenticated, "100%")));
        check("17", "%e4%zz", Err((Code::Unknown, "\u{fffd}%zz")));
        assert_eq!(Status::from_trailers(&HeaderMap::new()), None);
    }

    #[test]
    fn trailers_come_back_as_they_went() {
        for message in ["", "plain", "100% \"x\"\r\n\0 ü"] {
            let result = Err(Status::new(Code::Aborted, message));
            assert_eq!(Status::from_trailers(&trailers(&result)), Some(result));
        }
        assert_eq!(Status::from_trailers(&trailers(&Ok(()))), Some(Ok(())));
    }

    #[test]
    fn codes_have_upstreams_names() {
        let status = Status::new(Code::Unavailable, "gone");
        assert_eq!(status.to_string(), "rpc error: code = Unavailable desc = gone");
        assert_eq!(Code::Ok.to_string(), "OK");
    }
}
