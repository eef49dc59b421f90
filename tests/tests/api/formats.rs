//! Any mix of JSON, YAML and protobuf gives the same objects.

use corten_api::conform::{Extent, conform};
use corten_api::{json as text, protobuf, resources, yaml};
use corten_e2e::{Served, sample, served, settled};
use corten_testkit::{Request, Server};
use serde_json::{Value, json};

const FORMATS: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

#[test]
fn every_kind_in_every_mix() {
    let server = Server::start();
    let client = server.client();
    let kinds = served(client);
    let kinds = kinds.iter().filter(|kind| kind.has("create") && kind.has("get") && kind.has("list"));
    for (index, kind) in kinds.enumerate() {
        // Two versions of one resource would be the same object.
        let Some(sample) = sample(kind, &format!("mixed-{index}")) else {
            panic!("{kind:?} has no manifest")
        };
        let collection = kind.collection("default");
        let path = format!("{collection}/{}", sample.name);
        for sent in FORMATS {
            for wanted in FORMATS {
                let request = Request::new("POST", format!("{collection}?dryRun=All"))
                    .body(sent, encode(kind, &sample.object, sent))
                    .accept(wanted);
                let response = client.send(&request);
                response.expect_status(201);
                assert_eq!(response.header("content-type"), wanted, "{path} sent as {sent}");
                let object = decode(kind, &response.body, wanted);
                assert_eq!(object["metadata"]["name"], sample.name.as_str(), "{path} {sent} → {wanted}");
            }
        }
        let created = client.post(&collection, &sample.object).expect(201);
        let plain = settled(client, kind, &path, created);
        for wanted in FORMATS {
            let response = client.send(&Request::new("GET", &path).accept(wanted));
            response.expect_status(200);
            assert_eq!(decode(kind, &response.body, wanted), plain, "{path} as {wanted}");
            let list = client.send(&Request::new("GET", &collection).accept(wanted));
            list.expect_status(200);
            assert_eq!(list.header("content-type"), wanted, "{collection}");
            assert!(!list.body.is_empty());
        }
    }
}

#[test]
fn patches_and_updates_mix_too() {
    let server = Server::start();
    let client = server.client();
    let maps = served(client).into_iter().find(|kind| kind.kind == "ConfigMap").unwrap();
    let path = "/api/v1/namespaces/default/configmaps/mixed";
    let apply = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: mixed\ndata:\n  a: 'on'\n";
    let request = Request::new("PATCH", format!("{path}?fieldManager=m"))
        .body("application/apply-patch+yaml", apply)
        .accept(FORMATS[2]);
    let response = client.send(&request);
    response.expect_status(201);
    let mut object = decode(&maps, &response.body, FORMATS[2]);
    assert_eq!(object["data"], json!({"a": "on"}));
    for (round, sent) in FORMATS.iter().enumerate() {
        object["data"]["round"] = round.to_string().into();
        let request = Request::new("PUT", path).body(sent, encode(&maps, &object, sent)).accept(FORMATS[1]);
        let response = client.send(&request);
        response.expect_status(200);
        object = decode(&maps, &response.body, FORMATS[1]);
        assert_eq!(object["data"]["round"], round.to_string());
    }
}

#[test]
fn failures_come_in_the_format_asked_for() {
    let server = Server::start();
    let path = "/api/v1/namespaces/default/pods/nowhere";
    for wanted in FORMATS {
        let response = server.client().send(&Request::new("GET", path).accept(wanted));
        response.expect_status(404);
        assert_eq!(response.header("content-type"), wanted);
    }
    let path = "/api/v1/namespaces/default";
    let response = server.client().send(&Request::new("GET", path).accept("text/x-nothing"));
    response.expect_failure(406, "NotAcceptable");
    let request = Request::new("POST", "/api/v1/namespaces/default/pods").body("text/x-nothing", "{}");
    server.client().send(&request).expect_failure(415, "UnsupportedMediaType");
}

fn schema(kind: &Served) -> corten_api::schema::StructRef {
    resources::schema_of(&kind.group, &kind.version, &kind.kind).expect("served kinds have schemas")
}

fn encode(kind: &Served, object: &Value, format: &str) -> Vec<u8> {
    let value = text::parse(object.to_string().as_bytes()).expect("serde writes JSON");
    match format {
        "application/json" => object.to_string().into_bytes(),
        "application/yaml" => yaml::to_string(&value).into_bytes(),
        _ => {
            let mut out = Vec::new();
            protobuf::encode_object(&schema(kind), &value, &mut out).expect("samples fit their schemas");
            out
        }
    }
}

fn decode(kind: &Served, bytes: &[u8], format: &str) -> Value {
    let value = match format {
        "application/json" => text::parse(bytes).expect("the answer is JSON"),
        "application/yaml" => yaml::to_value(bytes, &mut Vec::new()).expect("the answer is YAML"),
        _ => {
            let mut value = protobuf::decode_object(bytes).expect("the answer is protobuf");
            conform(&mut value, &schema(kind), Extent::Whole, &mut Vec::new()).expect("it fits its schema");
            value
        }
    };
    serde_json::from_str(&text::write_to_string(&value)).expect("values are JSON")
}
