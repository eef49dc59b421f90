//! The servers of a cluster and the order in which a client prefers them. Pure.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

/// A server's place among all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) url: String,
    /// The operator named it.
    pub(super) is_given: bool,
    /// Its part in the client's order of preference.
    rank: (bool, u64),
}

impl Place {
    /// Learned servers come first, because a given one may be a load balancer in front of them.
    pub(super) fn rank(&self) -> (bool, u64) {
        self.rank
    }
}

/// The given and the learned servers of a client, each once.
pub(super) fn places(given: &[String], learned: &[SocketAddr], client: &str) -> Vec<Place> {
    let learned: Vec<String> = learned.iter().map(|address| format!("https://{address}")).collect();
    let urls: BTreeSet<&String> = given.iter().chain(&learned).collect();
    let place = |url: &String| {
        let is_other = !learned.is_empty() && !learned.contains(url);
        Place { url: url.clone(), is_given: given.contains(url), rank: (is_other, preference(client, url)) }
    };
    urls.into_iter().map(place).collect()
}

/// The preference of a client for a server. For each server about as many clients prefer it as any other.
fn preference(client: &str, url: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (client, url).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn preferred(given: &[&str], learned: &[&str], client: &str) -> Vec<String> {
        let given: Vec<String> = given.iter().map(|url| (*url).to_owned()).collect();
        let learned: Vec<SocketAddr> = learned.iter().map(|text| address(text)).collect();
        let mut places = places(&given, &learned, client);
        places.sort_by_key(Place::rank);
        places.into_iter().map(|place| place.url).collect()
    }

    #[test]
    fn every_server_is_there_once_and_learned_ones_come_first() {
        let learned = ["192.0.2.1:6443", "192.0.2.2:6443"];
        let all = preferred(&["https://192.0.2.2:6443", "https://balancer:6443"], &learned, "n");
        assert_eq!(all.len(), 3);
        assert_eq!(all[2], "https://balancer:6443");
        assert_eq!(preferred(&["https://a:1", "https://b:1"], &[], "n").len(), 2);
        assert_eq!(preferred(&[], &["[2001:db8::1]:6443"], "n"), ["https://[2001:db8::1]:6443"]);
    }

    #[test]
    fn clients_spread_over_the_servers_and_keep_their_order_when_one_goes() {
        let three = ["192.0.2.1:6443", "192.0.2.2:6443", "192.0.2.3:6443"];
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for number in 0..300 {
            let client = format!("node-{number}");
            let all = preferred(&[], &three, &client);
            assert_eq!(all, preferred(&[], &three, &client));
            let fewer = preferred(&[], &three[..2], &client);
            let expected: Vec<_> = all.iter().filter(|url| !url.contains("192.0.2.3")).cloned().collect();
            assert_eq!(fewer, expected, "only the clients of the server that went move");
            *counts.entry(all[0].clone()).or_default() += 1;
        }
        assert!(counts.len() == 3 && counts.values().all(|count| (60..=140).contains(count)), "{counts:?}");
    }
}
