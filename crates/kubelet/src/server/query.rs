//! The query of a URL, decoded.

#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: Option<&str>) -> Query {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        });
        Query(decoded.collect())
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Returns true if a parameter is set and neither `false` nor `0`.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }
}

/// Percent decoding; invalid escapes stay as they are. In queries `+` is a space.
pub(super) fn decode(text: &str, query: bool) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                match (digit(*high), digit(*low)) {
                    (Some(high), Some(low)) => {
                        out.push((high * 16 + low) as u8);
                        rest = after;
                    }
                    _ => out.push(byte),
                }
            }
            (b'+', _) if query => out.push(b' '),
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse(Some("command=ls&command=-l%20a&tty=1&input=0&x=a+b&odd=%zz"));
        assert_eq!(query.all("command").collect::<Vec<_>>(), ["ls", "-l a"]);
        assert!(query.flag("tty") && !query.flag("input") && !query.flag("none"));
        assert_eq!((query.get("x"), query.get("odd")), (Some("a b"), Some("%zz")));
    }
}
