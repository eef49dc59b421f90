//! The options of a log request: `PodLogOptions`, from the query.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;

use crate::server::query::Query;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LogOptions {
    pub(super) follow: bool,
    /// The log of the previous container.
    pub(super) previous: bool,
    pub(super) timestamps: bool,
    pub(super) since: Option<Timestamp>,
    pub(super) tail_lines: Option<u64>,
    pub(super) limit_bytes: Option<u64>,
}

type Rejection = (StatusCode, String);

impl LogOptions {
    pub(super) fn read(query: &Query, now: Timestamp) -> Result<LogOptions, Rejection> {
        // The old name of the parameter; `all` means no limit.
        let tail = match query.get("tail") {
            Some("all") => None,
            Some(tail) if !tail.is_empty() => Some(tail),
            _ => query.get("tailLines"),
        };
        let since_seconds = number(query.get("sinceSeconds"))?;
        let since_time = match query.get("sinceTime").filter(|text| !text.is_empty()) {
            Some(text) => Some(text.parse().map_err(|_| undecodable())?),
            None => None,
        };
        let options = LogOptions {
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since: match since_seconds {
                // Before the first time there is, nothing was written either.
                Some(seconds) => {
                    let ago = Duration::from_secs(at_least(seconds, 1)?);
                    Some(now.checked_sub(ago).unwrap_or(Timestamp::MIN))
                }
                None => since_time,
            },
            tail_lines: number(tail)?.map(|lines| at_least(lines, 0)).transpose()?,
            limit_bytes: number(query.get("limitBytes"))?.map(|bytes| at_least(bytes, 1)).transpose()?,
        };
        if since_seconds.is_some() && since_time.is_some() {
            return Err(invalid());
        }
        match query.get("stream") {
            None | Some("" | "All") => Ok(options),
            Some(stream) => Err((
                StatusCode::BAD_REQUEST,
                format!(
                    "unable to return the given log stream: {stream:?}. Please enable PodLogsQuerySplitStreams \
                     feature gate in kubelet"
                ),
            )),
        }
    }
}

fn number(text: Option<&str>) -> Result<Option<i64>, Rejection> {
    text.filter(|text| !text.is_empty()).map(|text| text.parse().map_err(|_| undecodable())).transpose()
}

fn at_least(number: i64, least: u64) -> Result<u64, Rejection> {
    u64::try_from(number).ok().filter(|number| *number >= least).ok_or_else(invalid)
}

fn undecodable() -> Rejection {
    (StatusCode::BAD_REQUEST, r#"{"message": "Unable to decode query."}"#.to_owned())
}

fn invalid() -> Rejection {
    (StatusCode::UNPROCESSABLE_ENTITY, r#"{"message": "Invalid request."}"#.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<LogOptions, u16> {
        let now = Timestamp::from_second(1000).unwrap();
        LogOptions::read(&Query::parse(Some(query)), now).map_err(|(code, _)| code.as_u16())
    }

    #[test]
    fn options_are_parsed() {
        let read_all =
            read("follow=true&previous=1&timestamps=true&sinceSeconds=10&tailLines=0&limitBytes=5");
        let expected = LogOptions {
            follow: true,
            previous: true,
            timestamps: true,
            since: Some(Timestamp::from_second(990).unwrap()),
            tail_lines: Some(0),
            limit_bytes: Some(5),
        };
        assert_eq!(read_all, Ok(expected));
        assert_eq!(read("tail=all&tailLines=7"), Ok(LogOptions::default()));
        let since = Some(Timestamp::MIN);
        assert_eq!(
            read("sinceSeconds=9223372036854775807"),
            Ok(LogOptions { since, ..LogOptions::default() })
        );
        assert_eq!(read("tailLines=-1"), Err(422));
        assert_eq!(read("limitBytes=0"), Err(422));
        assert_eq!(read("sinceSeconds=1&sinceTime=1970-01-01T00:00:00Z"), Err(422));
        assert_eq!(read("tailLines=x"), Err(400));
        assert_eq!(read("stream=Stdout"), Err(400));
    }
}
