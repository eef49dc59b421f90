//! What is in a table, as far as somebody who takes it over has to know.

use std::io;
use std::time::Duration;

use super::{Family, Key, Nftables, SUBSYSTEM};
use crate::netlink::{Attributes, Message, Reply, attributes};

const GET_CHAIN: u16 = 4;
const GET_SET: u16 = 10;
const GET_ELEMENTS: u16 = 13;
/// Before the attributes: family, version and number.
const FIXED: usize = 4;
const NO_SUCH_THING: i32 = 2;

impl Nftables {
    /// The names of a table's chains; none if there is no such table.
    pub fn chains(&mut self, family: Family, table: &str) -> io::Result<Vec<String>> {
        // Chains are not listed by table.
        let found = self.list(GET_CHAIN, family, &Attributes::new())?;
        let ours = found.iter().filter(|reply| text(reply, 1).as_deref() == Some(table));
        Ok(ours.filter_map(|reply| text(reply, 3)).collect())
    }

    /// The names of a table's sets and maps; none if there is no such table.
    pub fn sets(&mut self, family: Family, table: &str) -> io::Result<Vec<String>> {
        let found = self.list(GET_SET, family, &Attributes::new().text(1, table))?;
        Ok(found.iter().filter_map(|reply| text(reply, 2)).collect())
    }

    /// What is in a set, and how long it stays if it leaves by itself.
    pub fn elements(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
    ) -> io::Result<Vec<(Key, Option<Duration>)>> {
        let found = self.list(GET_ELEMENTS, family, &Attributes::new().text(1, table).text(2, set))?;
        let lists = found.iter().filter_map(|reply| value(reply, 3));
        Ok(lists.flat_map(attributes).filter_map(|(_, element)| read_element(element)).collect())
    }

    fn list(&mut self, kind: u16, family: Family, which: &Attributes) -> io::Result<Vec<Reply>> {
        let asked = Message::listing(SUBSYSTEM << 8 | kind, &[family as u8, 0, 0, 0], which);
        match self.0.list(&asked) {
            Err(error) if error.raw_os_error() == Some(NO_SUCH_THING) => Ok(Vec::new()),
            done => done,
        }
    }
}

fn value(reply: &Reply, kind: u16) -> Option<&[u8]> {
    let mut all = attributes(reply.body.get(FIXED..)?);
    all.find(|(found, _)| *found == kind).map(|(_, value)| value)
}

fn text(reply: &Reply, kind: u16) -> Option<String> {
    let value = value(reply, kind)?;
    Some(String::from_utf8_lossy(value).trim_end_matches('\0').to_owned())
}

fn read_element(element: &[u8]) -> Option<(Key, Option<Duration>)> {
    let (mut key, mut left) = (None, None);
    for (kind, value) in attributes(element) {
        match kind {
            1 => key = attributes(value).next().map(|(_, bytes)| Key::read(bytes)),
            5 => left = value.try_into().ok().map(u64::from_be_bytes).map(Duration::from_millis),
            _ => {}
        }
    }
    Some((key?, left))
}
