//! An object in its envelope.

use corten_api::protobuf;

pub(crate) fn check(data: &[u8]) {
    if let Ok(envelope) = protobuf::decode_envelope(data) {
        let mut written = Vec::new();
        protobuf::encode_envelope(&envelope.api_version, &envelope.kind, envelope.raw, &mut written);
        let again = protobuf::decode_envelope(&written).expect("what was written is read");
        assert_eq!((&again.kind, again.raw), (&envelope.kind, envelope.raw));
    }
    let _ = protobuf::decode_object(data);
}
