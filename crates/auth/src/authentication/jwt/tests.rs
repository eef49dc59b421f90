use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm};
use base64::engine::general_purpose::STANDARD;
use corten_api::value;

use super::*;
use crate::authentication::discovery;

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> String {
    pem("PRIVATE KEY", EcdsaKeyPair::generate(algorithm).unwrap().to_pkcs8v1().unwrap().as_ref())
}

fn rsa() -> String {
    let der: Pkcs8V1Der<'_> = RsaKeyPair::generate(KeySize::Rsa2048).unwrap().as_der().unwrap();
    pem("PRIVATE KEY", der.as_ref())
}

fn p256() -> SigningKey {
    SigningKey::from_pem(&ecdsa(&signature::ECDSA_P256_SHA256_FIXED_SIGNING)).unwrap()
}

fn keys(of: &[&SigningKey]) -> PublicKeys {
    let mut keys = PublicKeys::default();
    keys.extend(of.iter().map(|key| key.public().clone()));
    keys
}

fn claims() -> Value {
    value!({"iss": "https://issuer", "sub": "user-1"})
}

/// A token with a forged header and any signature.
fn forged(header: &str, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let claims = URL_SAFE_NO_PAD.encode(json::write_to_string(claims));
    let signed = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(header));
    let signature = URL_SAFE_NO_PAD.encode(sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

#[track_caller]
fn check(token: &str, keys: &PublicKeys, expected: &Result<(), Refusal>) {
    let found = Token::parse(token).ok_or(Refusal::Unknown).and_then(|token| token.verify(keys));
    assert_eq!(&found.map(|_| ()), expected, "{token}");
}

#[test]
fn every_kind_of_key_signs_and_verifies() {
    let private = [
        (ecdsa(&signature::ECDSA_P256_SHA256_FIXED_SIGNING), "ES256"),
        (ecdsa(&signature::ECDSA_P384_SHA384_FIXED_SIGNING), "ES384"),
        (ecdsa(&signature::ECDSA_P521_SHA512_FIXED_SIGNING), "ES512"),
        (rsa(), "RS256"),
    ];
    for (pem, algorithm) in &private {
        let key = SigningKey::from_pem(pem).unwrap();
        assert_eq!(key.public().algorithm(), *algorithm);
        let token = key.token(&claims()).unwrap();
        let parsed = Token::parse(&token).unwrap();
        assert_eq!(parsed.issuer(), "https://issuer");
        assert_eq!(parsed.verify(&PublicKeys::from_pem(pem).unwrap()), Ok(claims()));
    }
}

#[test]
fn one_of_several_keys_is_enough() {
    let (old, new) = (p256(), p256());
    let both = keys(&[&new, &old]);
    check(&old.token(&claims()).unwrap(), &both, &Ok(()));
    check(&new.token(&claims()).unwrap(), &both, &Ok(()));
    check(&old.token(&claims()).unwrap(), &keys(&[&new]), &Err(Refusal::NoKey));
    let unnamed = forged(r#"{"alg":"ES256"}"#, &claims(), |m| old.sign(m).unwrap());
    check(&unnamed, &both, &Ok(()));
    check(&unnamed, &keys(&[&new]), &Err(Refusal::Signature));
}

#[test]
fn the_algorithm_in_a_token_is_not_trusted() {
    let key = p256();
    let known = keys(&[&key]);
    let id = key.public().id();
    let sign = |message: &[u8]| key.sign(message).unwrap();
    let refused = Err(Refusal::Signature);
    let header = |alg: &str| format!(r#"{{"alg":"{alg}","kid":"{id}"}}"#);
    for alg in ["none", "None", "", "es256", "HS256", "RS256", "ES384", "ES512", "PS256"] {
        check(&forged(&header(alg), &claims(), sign), &known, &refused);
    }
    check(&forged(&header("none"), &claims(), |_| Vec::new()), &known, &refused);
    check(&forged(r#"{"alg":"none"}"#, &claims(), |_| Vec::new()), &known, &refused);
    // The public key as the secret of a MAC, in every form an attacker may have it.
    let jwk = json::write_to_string(&discovery::key_set(&known));
    for secret in [id.as_bytes(), jwk.as_bytes()] {
        let mac = |m: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), m).as_ref().to_vec();
        check(&forged(&header("HS256"), &claims(), mac), &known, &refused);
    }
    check(&forged(&format!(r#"{{"kid":"{id}"}}"#), &claims(), sign), &known, &refused);
    check(&forged(&header("ES256"), &claims(), sign), &known, &Ok(()));
}

#[test]
fn extensions_and_keys_in_a_token_are_refused() {
    let key = p256();
    let known = keys(&[&key]);
    let sign = |message: &[u8]| key.sign(message).unwrap();
    let with = |more: &str| format!(r#"{{"alg":"ES256","kid":"{}"{more}}}"#, key.public().id());
    check(&forged(&with(r#","typ":"JWT""#), &claims(), sign), &known, &Ok(()));
    check(&forged(&with(r#","crit":[]"#), &claims(), sign), &known, &Ok(()));
    check(&forged(&with(r#","crit":["x"],"x":1"#), &claims(), sign), &known, &Err(Refusal::Signature));
    check(&forged(&with(r#","crit":"x""#), &claims(), sign), &known, &Err(Refusal::Signature));
    check(
        &forged(&with(r#","jwk":{"kty":"oct","k":"AA"}"#), &claims(), sign),
        &known,
        &Err(Refusal::Unknown),
    );
    check(&forged(r#"{"alg":"ES256","kid":5}"#, &claims(), sign), &known, &Err(Refusal::Unknown));
    check(&forged(r#"{"alg":"ES256","kid":"x"}"#, &claims(), sign), &known, &Err(Refusal::NoKey));
}

#[test]
fn changed_tokens_do_not_verify() {
    let (key, other) = (p256(), p256());
    let known = keys(&[&key]);
    let good = key.token(&claims()).unwrap();
    let parts: Vec<&str> = good.split('.').collect();
    let more = URL_SAFE_NO_PAD.encode(r#"{"iss":"https://issuer","sub":"admin"}"#);
    check(&format!("{}.{more}.{}", parts[0], parts[2]), &known, &Err(Refusal::Signature));
    let header = format!(r#"{{"alg":"ES256","kid":"{}"}}"#, key.public().id());
    check(&forged(&header, &claims(), |m| other.sign(m).unwrap()), &known, &Err(Refusal::Signature));
    check(&forged(&header, &claims(), |_| vec![0; 64]), &known, &Err(Refusal::Signature));
    check(&forged(&header, &claims(), |_| Vec::new()), &known, &Err(Refusal::Signature));
}

#[test]
fn only_the_compact_form_is_a_token() {
    let key = p256();
    let known = keys(&[&key]);
    let good = key.token(&claims()).unwrap();
    let bad = ["", ".", "..", "a.b.c", "{}", "x", "....", "{\"payload\":\"\"}"];
    for token in bad.map(str::to_owned).into_iter().chain([
        format!("{good}."),
        format!("{good}="),
        format!(".{good}"),
        format!("{good} "),
        good.replace('.', ".."),
        good.replacen('.', "", 1),
    ]) {
        check(&token, &known, &Err(Refusal::Unknown));
    }
}

#[test]
fn the_key_set_contains_the_public_keys() {
    let (ec, rsa) = (p256(), SigningKey::from_pem(&rsa()).unwrap());
    let set = discovery::key_set(&keys(&[&ec, &rsa]));
    let [first, second] = set.items_at(&["keys"]) else { panic!("two keys: {set:?}") };
    assert_eq!((first.str_at(&["kty"]), first.str_at(&["crv"])), (Some("EC"), Some("P-256")));
    assert_eq!(first.str_at(&["kid"]), Some(ec.public().id()));
    let bytes = |key: &Value, member| URL_SAFE_NO_PAD.decode(key.str_at(&[member]).unwrap()).unwrap();
    let point = [vec![4], bytes(first, "x"), bytes(first, "y")].concat();
    let token = ec.token(&claims()).unwrap();
    let (signed, made) = token.rsplit_once('.').unwrap();
    let verifier = signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
    verifier.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(made).unwrap()).unwrap();
    let verifier = signature::RsaPublicKeyComponents { n: bytes(second, "n"), e: bytes(second, "e") };
    let token = rsa.token(&claims()).unwrap();
    let (signed, made) = token.rsplit_once('.').unwrap();
    let made = URL_SAFE_NO_PAD.decode(made).unwrap();
    verifier.verify(&signature::RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &made).unwrap();
    let configuration = discovery::configuration("https://i", "https://k", &keys(&[&ec, &rsa]));
    let algorithms = configuration.items_at(&["id_token_signing_alg_values_supported"]);
    assert_eq!(algorithms, [Value::from("ES256"), Value::from("RS256")]);
}

#[test]
fn invalid_keys_are_refused() {
    use crate::authentication::KeyError;
    assert!(matches!(PublicKeys::from_pem(""), Err(KeyError::None)));
    assert!(matches!(SigningKey::from_pem(&pem("PUBLIC KEY", b"x")), Err(KeyError::None)));
    assert!(matches!(PublicKeys::from_pem(&pem("PUBLIC KEY", b"x")), Err(KeyError::Unusable)));
    assert!(matches!(SigningKey::from_pem(&pem("PRIVATE KEY", b"x")), Err(KeyError::Unusable)));
    assert!(matches!(PublicKeys::from_pem("-----BEGIN PUBLIC KEY-----\nx"), Err(KeyError::Pem)));
}
