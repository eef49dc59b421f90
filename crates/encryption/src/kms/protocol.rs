//! The messages of KMS plugins: upstream's `v2.KeyManagementService`.

use std::collections::BTreeMap;

use corten_grpc::protobuf::messages;

pub const STATUS: &str = "/v2.KeyManagementService/Status";
pub const ENCRYPT: &str = "/v2.KeyManagementService/Encrypt";
pub const DECRYPT: &str = "/v2.KeyManagementService/Decrypt";

messages! {
    pub StatusRequest {}
    pub StatusResponse { 1 version: String, 2 healthz: String, 3 key_id: String }
    pub DecryptRequest {
        1 ciphertext: Vec<u8>,
        2 uid: String,
        3 key_id: String,
        4 annotations: BTreeMap<String, Vec<u8>>,
    }
    pub DecryptResponse { 1 plaintext: Vec<u8> }
    pub EncryptRequest { 1 plaintext: Vec<u8>, 2 uid: String }
    pub EncryptResponse { 1 ciphertext: Vec<u8>, 2 key_id: String, 3 annotations: BTreeMap<String, Vec<u8>> }
}
