//! Lists the contents of a table, for a process that takes it over.

use std::io;
use std::time::Duration;

use super::{Family, Key, Nftables, SUBSYSTEM};
use crate::netlink::{Attributes, Message, Reply, attributes};

const GET_CHAIN: u16 = 4;
const GET_SET: u16 = 10;
const GET_ELEMENTS: u16 = 13;
/// The length of the fixed part: family, version and resource ID.
const FIXED: usize = 4;
const NO_SUCH_THING: i32 = 2;

impl Nftables {
    /// The names of a table's chains; none if there is no such table.
    pub fn chains(&mut self, family: Family, table: &str) -> io::Result<Vec<String>> {
        // The kernel does not filter chains by table.
        Ok(chain_names(&self.list(GET_CHAIN, family, &Attributes::new())?, table))
    }

    /// The names of a table's sets and maps; none if there is no such table.
    pub fn sets(&mut self, family: Family, table: &str) -> io::Result<Vec<String>> {
        Ok(set_names(&self.list(GET_SET, family, &Attributes::new().text(1, table))?))
    }

    /// The elements of a set, with their remaining timeouts.
    pub fn elements(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
    ) -> io::Result<Vec<(Key, Option<Duration>)>> {
        Ok(set_elements(&self.list(GET_ELEMENTS, family, &Attributes::new().text(1, table).text(2, set))?))
    }

    fn list(&mut self, kind: u16, family: Family, which: &Attributes) -> io::Result<Vec<Reply>> {
        let asked = Message::listing(SUBSYSTEM << 8 | kind, &[family as u8, 0, 0, 0], which);
        match self.0.list(&asked) {
            Err(error) if error.raw_os_error() == Some(NO_SUCH_THING) => Ok(Vec::new()),
            done => done,
        }
    }
}

/// The names of the chains of a table, among all chains.
pub(crate) fn chain_names(replies: &[Reply], table: &str) -> Vec<String> {
    let of_table = replies.iter().filter(|reply| text(reply, 1).as_deref() == Some(table));
    of_table.filter_map(|reply| text(reply, 3)).collect()
}

pub(crate) fn set_names(replies: &[Reply]) -> Vec<String> {
    replies.iter().filter_map(|reply| text(reply, 2)).collect()
}

/// The elements of a set, with the time that is left of those that expire.
pub(crate) fn set_elements(replies: &[Reply]) -> Vec<(Key, Option<Duration>)> {
    let lists = replies.iter().filter_map(|reply| value(reply, 3));
    lists.flat_map(attributes).filter_map(|(_, element)| read_element(element)).collect()
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
