//! Entry points of this crate's private decoders for the fuzz targets in `fuzz/`; nothing else calls them.

use jiff::{SignedDuration, Timestamp};

use crate::cache::{Cache, Key, readdressed};
use crate::message::{Answer, Code, Limit, Query, Unanswerable, read};
use crate::name::Name;
use crate::resolvers;
use crate::upstream::UpstreamResponse;

/// A datagram, as a DNS query from a client and as a DNS response from an upstream resolver.
pub fn message(data: &[u8]) {
    match read(data) {
        Ok(query) => check_query(&query),
        Err(Unanswerable::Refused(reply)) => assert!(reply.len() >= 12, "a refusal has a header"),
        Err(Unanswerable::Ignored) => {}
    }
    if let Some(response) = UpstreamResponse::read(data) {
        check_response(data, &response);
    }
}

/// A response to a query repeats its question and fits its limit.
fn check_query(query: &Query) {
    for limit in [Limit::None, Limit::Datagram] {
        let reply = query.reply(&Answer::bare(Code::NxDomain), limit);
        assert!(reply.len() <= query.limit(limit));
        let response = UpstreamResponse::read(&reply).expect("a response that was written is read");
        assert_eq!(response.question, query.question);
    }
}

/// A response survives the cache, and is readable as the response to a query for the same question.
fn check_response(data: &[u8], response: &UpstreamResponse) {
    let question = &response.question;
    let key = Key::plain(question.clone());
    let mut cache = Cache::default();
    cache.put(key.clone(), data, response, Timestamp::UNIX_EPOCH);
    let later = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(2);
    let Some(hit) = cache.get(&key, later) else { return };
    assert_eq!(hit.message.len(), data.len());
    let query = read(&Query::encode_question(&question.name, question.kind, 7))
        .expect("a query that was written is read");
    for limit in [Limit::None, Limit::Datagram] {
        assert!(
            readdressed(hit.message.clone(), &query, limit).len()
                <= query.limit(limit).max(hit.message.len())
        );
    }
}

/// A domain name as text, and a `resolv.conf`.
pub fn text(text: &str) {
    if let Some(name) = Name::parse(text) {
        let (again, end) = Name::read(name.wire(), 0).expect("a name that was parsed is read");
        assert_eq!((&again, end), (&name, name.wire().len()));
    }
    let _ = resolvers::parse(text, &[]);
}
