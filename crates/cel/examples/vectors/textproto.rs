//! A reader of the text format of protocol buffers, as far as conformance tests use it.

/// A field's value.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    Text(Vec<u8>),
    /// A number or a name.
    Word(String),
    Message(Message),
}

/// Fields in their order. Extensions and `Any` messages are fields whose name has brackets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(pub(crate) Vec<(String, Field)>);

impl Message {
    pub(crate) fn get(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, field)| field)
    }

    pub(crate) fn message(&self, name: &str) -> Option<&Message> {
        match self.get(name) {
            Some(Field::Message(message)) => Some(message),
            _ => None,
        }
    }

    pub(crate) fn messages<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Message> {
        self.0.iter().filter(move |(known, _)| known == name).filter_map(|(_, field)| match field {
            Field::Message(message) => Some(message),
            _ => None,
        })
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.get(name) {
            Some(Field::Text(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            Some(Field::Word(word)) => Some(word.clone()),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text == "true")
    }
}

/// Parses a file. The error says where it cannot be read.
pub(crate) fn parse(text: &str) -> Result<Message, String> {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    let message = reader.fields(None)?;
    match reader.peek() {
        None => Ok(message),
        Some(_) => Err(format!("unexpected text at byte {}", reader.at)),
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next byte after white space, comments and separators.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at)? {
                b'#' => {
                    while self.text.get(self.at).is_some_and(|byte| *byte != b'\n') {
                        self.at += 1;
                    }
                }
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b';' => self.at += 1,
                byte => return Some(*byte),
            }
        }
    }

    fn skip(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self) -> Result<String, String> {
        self.peek();
        let start = self.at;
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'+');
        while self.text.get(self.at).is_some_and(part) {
            self.at += 1;
        }
        match self.at > start {
            true => Ok(String::from_utf8_lossy(&self.text[start..self.at]).into_owned()),
            false => Err(format!("no name at byte {start}")),
        }
    }

    fn fields(&mut self, end: Option<u8>) -> Result<Message, String> {
        let mut message = Message::default();
        loop {
            match (self.peek(), end) {
                (None, None) => return Ok(message),
                (None, Some(_)) => return Err("unexpected end".to_owned()),
                (Some(byte), Some(end)) if byte == end => {
                    self.at += 1;
                    return Ok(message);
                }
                _ => {}
            }
            let name = match self.skip(b'[') {
                true => {
                    let start = self.at;
                    while self.text.get(self.at).is_some_and(|byte| *byte != b']') {
                        self.at += 1;
                    }
                    self.at += 1;
                    format!("[{}]", String::from_utf8_lossy(&self.text[start..self.at - 1]).trim())
                }
                false => self.word()?,
            };
            self.skip(b':');
            if self.skip(b'[') {
                while !self.skip(b']') {
                    let value = self.value()?;
                    message.0.push((name.clone(), value));
                }
            } else {
                let value = self.value()?;
                message.0.push((name, value));
            }
        }
    }

    fn value(&mut self) -> Result<Field, String> {
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                self.fields(Some(b'}')).map(Field::Message)
            }
            Some(b'<') => {
                self.at += 1;
                self.fields(Some(b'>')).map(Field::Message)
            }
            Some(b'"' | b'\'') => {
                let mut text = Vec::new();
                while let Some(quote @ (b'"' | b'\'')) = self.peek() {
                    self.at += 1;
                    self.quoted(quote, &mut text)?;
                }
                Ok(Field::Text(text))
            }
            _ => self.word().map(Field::Word),
        }
    }

    fn quoted(&mut self, quote: u8, text: &mut Vec<u8>) -> Result<(), String> {
        loop {
            let byte = *self.text.get(self.at).ok_or("unexpected end of text")?;
            self.at += 1;
            match byte {
                _ if byte == quote => return Ok(()),
                b'\\' => self.escape(text)?,
                _ => text.push(byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), String> {
        let kind = *self.text.get(self.at).ok_or("unexpected end of escape")?;
        self.at += 1;
        let start = self.at;
        let mut number = |most: usize, radix: u32, start: usize| {
            let digits =
                self.text[start..].iter().take(most).take_while(|byte| (**byte as char).is_digit(radix));
            let length = digits.count();
            self.at = start + length;
            let digits = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
            u32::from_str_radix(&digits, radix).map_err(|_| format!("invalid escape at byte {start}"))
        };
        match kind {
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'a' => text.push(7),
            b'b' => text.push(8),
            b'f' => text.push(12),
            b'v' => text.push(11),
            b'x' => text.push(number(2, 16, start)? as u8),
            b'0'..=b'7' => text.push(number(3, 8, start - 1)? as u8),
            b'u' | b'U' => {
                let code = number(if kind == b'u' { 4 } else { 8 }, 16, start)?;
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => text.push(other),
        }
        Ok(())
    }
}
