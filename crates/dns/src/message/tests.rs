use super::*;

/// A query as a resolver sends it.
fn query_message(name: &str, kind: u16, edns: Option<u16>) -> Vec<u8> {
    let mut message = Query::encode_question(&Name::parse(name).unwrap(), kind, 7);
    if let Some(size) = edns {
        message[11] = 1;
        message.push(0);
        message.extend(OPT.to_be_bytes());
        message.extend(size.to_be_bytes());
        message.extend([0, 0, 0x80, 0, 0, 0]);
    }
    message
}

fn of_addresses(count: u8) -> Answer {
    let record = |last| Record { owner: None, ttl: 30, data: Data::A([10, 0, 0, last].into()) };
    let records = (0..count).map(record).collect();
    Answer { authoritative: true, records, ..Answer::bare(Code::NoError) }
}

fn count(reply: &[u8], section: usize) -> u16 {
    u16::from_be_bytes([reply[4 + 2 * section], reply[5 + 2 * section]])
}

#[test]
fn a_response_contains_its_question() {
    let query = read(&query_message("Web.Default.svc.cluster.local", kind::A, None)).unwrap();
    let reply = query.reply(&of_addresses(1), Limit::Datagram);
    assert_eq!(reply[..4], [0, 7, 0x85, 0x80], "the number, and what kind of answer it is");
    assert_eq!(Name::read(&reply, 12).unwrap().0.to_string(), "Web.Default.svc.cluster.local.");
    assert_eq!([count(&reply, 0), count(&reply, 1), count(&reply, 3)], [1, 1, 0]);
    assert_eq!(reply[reply.len() - 16..reply.len() - 14], [0xc0, 12], "the owner is the question's name");
    assert_eq!(reply[reply.len() - 4..], [10, 0, 0, 0]);
}

#[test]
fn answers_that_do_not_fit_are_truncated() {
    let query = read(&query_message("many.svc", kind::A, None)).unwrap();
    let reply = query.reply(&of_addresses(100), Limit::Datagram);
    assert!(reply.len() <= 512 && reply[2] & 2 == 2, "{} octets", reply.len());
    assert_eq!(usize::from(count(&reply, 1)), (512 - 26) / 16);
    let reply = query.reply(&of_addresses(100), Limit::None);
    assert!(reply[2] & 2 == 0 && count(&reply, 1) == 100);
    let query = read(&query_message("many.svc", kind::A, Some(4096))).unwrap();
    let reply = query.reply(&of_addresses(100), Limit::Datagram);
    assert_eq!([count(&reply, 1), count(&reply, 3)], [100, 1]);
    assert!(reply[2] & 2 == 0);
}

#[test]
fn additional_records_are_left_out_first() {
    let query = read(&query_message("many.svc", kind::SRV, None)).unwrap();
    let mut answer = of_addresses(20);
    answer.additional = of_addresses(20).records;
    let reply = query.reply(&answer, Limit::Datagram);
    assert_eq!([count(&reply, 1), count(&reply, 3)], [20, 10]);
    assert!(reply[2] & 2 == 0);
}

#[test]
fn suffixes_of_names_are_compressed_to_the_question() {
    let query = read(&query_message("a.cluster.local", kind::PTR, None)).unwrap();
    let name = Name::parse("b.Cluster.local").unwrap();
    let record = Record { owner: None, ttl: 30, data: Data::Ptr(name.clone()) };
    let answer = Answer { records: vec![record], ..Answer::bare(Code::NoError) };
    let reply = query.reply(&answer, Limit::Datagram);
    assert_eq!(reply[reply.len() - 4..], [1, b'b', 0xc0, 14]);
    assert_eq!(Name::read(&reply, reply.len() - 4).unwrap().0, name);
}

#[test]
fn invalid_queries_are_refused_or_ignored() {
    let refused = |message: &[u8]| match read(message) {
        Err(Unanswerable::Refused(reply)) => Some(reply[3] & 15),
        Err(Unanswerable::Ignored) => None,
        Ok(query) => panic!("{query:?}"),
    };
    let plain = query_message("a.b", kind::A, None);
    assert_eq!(refused(&[]), None);
    assert_eq!(refused(&plain[..11]), None);
    let with = |at: usize, value: u8| {
        let mut message = plain.clone();
        message[at] = value;
        message
    };
    assert_eq!(refused(&with(2, 0x80)), None, "an answer");
    assert_eq!(refused(&with(2, 0x10)), Some(4), "another operation");
    assert_eq!(refused(&with(5, 2)), Some(1), "two questions");
    assert_eq!(refused(&with(12, 60)), Some(1), "a name that does not end");
    assert_eq!(refused(&plain[..plain.len() - 1]), Some(1), "half a class");
    let mut newer = query_message("a.b", kind::A, Some(1232));
    let version = newer.len() - 5;
    newer[version] = 1;
    let Err(Unanswerable::Refused(reply)) = read(&newer) else { panic!("an unknown version was taken") };
    assert_eq!((reply[3] & 15, reply[reply.len() - 6]), (0, 1), "a code that needs more than four bits");
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    let whole = query_message("web.default.svc.cluster.local", kind::A, Some(1232));
    for length in 0..whole.len() {
        let _ = read(&whole[..length]);
    }
    for at in 0..whole.len() {
        for value in [0, 1, 63, 64, 0xc0, 0xff] {
            let mut message = whole.clone();
            message[at] = value;
            if let Ok(query) = read(&message) {
                let _ = query.reply(&of_addresses(3), Limit::Datagram);
            }
        }
    }
}
