use corten_api::value;

use super::*;

const NOW: i64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn account() -> Value {
    value!({"metadata": {"namespace": "n", "name": "a", "uid": "u"}})
}

fn issued() -> Value {
    let audiences = ["https://api".to_owned()];
    let issue = Issue {
        issuer: "https://issuer",
        account: &account(),
        secret: None,
        pod: Some(Reference { name: "p".into(), uid: "pu".into() }),
        node: Some(Reference { name: "w".into(), uid: String::new() }),
        audiences: &audiences,
        id: "j",
        now: now(),
        lifetime: 3600,
        warn_after: Some(607),
    };
    issue.claims()
}

#[test]
fn issued_claims_are_upstreams() {
    let expected = value!({
        "aud": ["https://api"],
        "exp": (NOW + 3600),
        "iat": NOW,
        "iss": "https://issuer",
        "jti": "j",
        "kubernetes.io": {
            "namespace": "n",
            "node": {"name": "w"},
            "pod": {"name": "p", "uid": "pu"},
            "serviceaccount": {"name": "a", "uid": "u"},
            "warnafter": (NOW + 607)
        },
        "nbf": NOW,
        "sub": "system:serviceaccount:n:a"
    });
    assert_eq!(issued(), expected);
}

#[test]
fn the_user_has_the_bound_objects_in_its_extra() {
    let claims = Claims::read(&issued()).unwrap();
    let user = claims.user("j");
    assert_eq!(user.name, "system:serviceaccount:n:a");
    assert_eq!(user.uid, "u");
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]);
    let extra: Vec<(&str, &str)> = user.extra.iter().map(|(k, v)| (k.as_str(), v[0].as_str())).collect();
    let expected = [
        ("authentication.kubernetes.io/credential-id", "JTI=j"),
        ("authentication.kubernetes.io/node-name", "w"),
        ("authentication.kubernetes.io/pod-name", "p"),
        ("authentication.kubernetes.io/pod-uid", "pu"),
    ];
    assert_eq!(extra, expected);
}

#[test]
fn times_have_a_minute_of_leeway() {
    #[track_caller]
    fn check(claim: &str, offset: i64, expected: &Result<(), Refusal>) {
        let mut claims = Value::object();
        claims.set(&[claim], NOW + offset);
        let registered = Registered::read(&claims).unwrap();
        assert_eq!(&registered.check_time(now()), expected, "{claim} {offset}");
    }
    check("exp", 10, &Ok(()));
    check("exp", -60, &Ok(()));
    check("exp", -61, &Err(Refusal::Expired));
    check("exp", -NOW, &Err(Refusal::Expired));
    check("nbf", 60, &Ok(()));
    check("nbf", 61, &Err(Refusal::NotYetValid));
    check("iat", 60, &Ok(()));
    check("iat", 61, &Err(Refusal::IssuedInTheFuture));
    assert_eq!(Registered::read(&Value::object()).unwrap().check_time(now()), Ok(()));
    let read = |value: Value| {
        let mut claims = Value::object();
        claims.set(&["exp"], value);
        Registered::read(&claims).and_then(|registered| registered.check_time(now()))
    };
    assert_eq!(read(Value::from(NOW as f64 + 0.5)), Ok(()));
    assert_eq!(read(Value::from(f64::MIN)), Err(Refusal::Expired));
    assert_eq!(read(Value::from(NOW.to_string())), Err(Refusal::NotADate));
}

#[test]
fn audiences() {
    let own = ["https://api".to_owned()];
    let find = |claim: Value, wanted: &[&str]| {
        let mut claims = Value::object();
        claims.set(&["aud"], claim);
        let wanted: Vec<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
        Registered::read(&claims)?.check_audiences(&wanted, &own)
    };
    assert_eq!(find(value!(["x", "https://api"]), &["https://api"]), Ok(own.to_vec()));
    assert_eq!(find(value!("https://api"), &["https://api"]), Ok(own.to_vec()));
    assert_eq!(find(value!(["x", "y"]), &["z", "x"]), Ok(vec!["x".to_owned()]));
    assert_eq!(find(Value::Null, &["https://api"]), Ok(own.to_vec()));
    let refused = find(Value::Null, &["x"]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "token audiences [\"https://api\"] is invalid for the target audiences [\"x\"]"
    );
    let refused = find(value!(["x", "y"]), &["https://api"]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "token audiences [\"x\" \"y\"] is invalid for the target audiences [\"https://api\"]"
    );
    assert_eq!(find(value!(5), &["x"]), Err(Refusal::NotAnAudience));
    assert_eq!(find(value!([5]), &["x"]), Err(Refusal::NotAnAudience));
}

#[test]
fn malformed_claims_are_refused() {
    let read = |private: Value| {
        let mut claims = Value::object();
        claims.set(&["kubernetes.io"], private);
        Claims::read(&claims)
    };
    let refused = read(value!(5)).unwrap_err().to_string();
    assert_eq!(refused, "json: cannot unmarshal number into Go value of type serviceaccount.kubernetes");
    for private in [value!([]), value!({"pod": "p"}), value!({"namespace": 1}), value!({"warnafter": "x"})] {
        assert!(read(private.clone()).is_err(), "{private:?}");
    }
    assert_eq!(read(Value::Null), Ok(Claims::default()));
}

#[test]
fn bound_objects_must_exist() {
    let secret = |kind: &str| {
        let mut claims =
            value!({"kubernetes.io": {"namespace": "n", "serviceaccount": {"name": "a", "uid": "u"}}});
        claims.set(&["kubernetes.io", kind], value!({"name": "o", "uid": "ou"}));
        Claims::read(&claims).unwrap()
    };
    for (kind, name) in [(Kind::Secret, "secret"), (Kind::Pod, "pod"), (Kind::Node, "node")] {
        let claims = secret(name);
        let (found, reference) = claims.references().nth(1).unwrap();
        assert_eq!(found, kind);
        let find = |object: Option<&Value>| check(kind, &claims, reference, object, now());
        assert_eq!(find(Some(&value!({"metadata": {"uid": "ou"}}))), Ok(()));
        assert_eq!(find(None), Err(Refusal::Invalidated));
        let recreated = find(Some(&value!({"metadata": {"uid": "other"}}))).unwrap_err();
        let expected = format!("{name} UID (other) does not match service account {name} ref claim (ou)");
        assert_eq!(recreated.to_string(), expected);
        let deleted = |seconds: i64| {
            let at = time::format(Timestamp::from_second(NOW + seconds).unwrap());
            find(Some(&value!({"metadata": {"uid": "ou", "deletionTimestamp": at}})))
        };
        assert_eq!(deleted(30), Ok(()));
        assert_eq!(deleted(-60), Ok(()));
        assert_eq!(deleted(-61), Err(Refusal::Invalidated));
        let odd = value!({"metadata": {"uid": "ou", "deletionTimestamp": "soon"}});
        assert_eq!(find(Some(&odd)), Err(Refusal::Invalidated));
    }
}

#[test]
fn a_recreated_service_account_invalidates_its_tokens() {
    let claims = Claims::read(&issued()).unwrap();
    let (kind, reference) = claims.references().next().unwrap();
    let find = |object: Option<&Value>| check(kind, &claims, reference, object, now());
    assert_eq!(find(Some(&account())), Ok(()));
    assert_eq!(find(None).unwrap_err().to_string(), "serviceaccounts \"a\" not found");
    let recreated = value!({"metadata": {"namespace": "n", "name": "a", "uid": "v"}});
    assert_eq!(
        find(Some(&recreated)).unwrap_err().to_string(),
        "service account UID (v) does not match claim (u)"
    );
    let at = time::format(Timestamp::from_second(NOW - 100).unwrap());
    let deleted = value!({"metadata": {"uid": "u", "deletionTimestamp": at}});
    assert_eq!(find(Some(&deleted)).unwrap_err().to_string(), "service account n/a has been deleted");
    let nameless = Claims::default();
    let (kind, reference) = nameless.references().next().unwrap();
    assert_eq!(check(kind, &nameless, reference, None, now()), Err(Refusal::NoName));
}

#[test]
fn the_node_of_a_pods_token_need_not_exist() {
    let claims = Claims::read(&issued()).unwrap();
    let kinds: Vec<Kind> = claims.references().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [Kind::ServiceAccount, Kind::Pod]);
}
