use corten_api::json;

use super::*;

const DATA: &str = r#"{"kind":"List","items":[
    {"name":"a","n":1,"f":1.5,"ok":true,"tags":["x","y"],"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Other","status":"False"}]}},
    {"name":"b","n":2,"f":2.5,"ok":false,"tags":[],"a.b":"dotted"},
    {"name":"c","n":3,"z":null}],
    "empty":[],"nested":{"name":"inner","deep":{"name":"deepest"}}}"#;

#[track_caller]
fn check(template: &str, expected: Result<&str, &str>) {
    let data = json::parse(DATA.as_bytes()).unwrap();
    let text = JsonPath::parse(template).and_then(|path| path.execute(&data, MissingKeys::Refused));
    assert_eq!(text.as_deref().map_err(String::as_str), expected, "{template}");
}

#[test]
fn fields_and_items() {
    check("{.kind}", Ok("List"));
    check("kind: {$.kind}!", Ok("kind: List!"));
    check("{.items[0].name}", Ok("a"));
    check("{.items[-1].name}", Ok("c"));
    check("{.items[*].name}", Ok("a b c"));
    check("{.items[0:2].name}", Ok("a b"));
    check("{.items[::2].name}", Ok("a c"));
    check("{.items[1:].name}", Ok("b c"));
    check("{.items[0,2].name}", Ok("a c"));
    check("{.items[0]['name','n']}", Ok("a 1"));
    check("{.items[1]['a\\.b']}", Ok("dotted"));
    check("{.items[1].a\\.b}", Ok("dotted"));
    check("{.items[0].f} {.items[0].ok} {.items[2].z}", Ok("1.5 true null"));
    check("{.items[0].tags}", Ok(r#"["x","y"]"#));
    check("{.nested.*}", Ok(r#"{"name":"deepest"} inner"#));
    check("{..name}", Ok("a b c inner deepest"));
    check("{.nested..name}", Ok("inner deepest"));
    check("{.empty[*]}", Ok(""));
    check("{.empty[0:0]}", Ok(""));
}

#[test]
fn filters() {
    check(r#"{.items[?(@.name=="b")].n}"#, Ok("2"));
    check(r#"{.items[?(@.n>1)].name}"#, Ok("b c"));
    check(r#"{.items[?(@.n>=2)].name}"#, Ok("b c"));
    check(r#"{.items[?(@.n!=2)].name}"#, Ok("a c"));
    check(r#"{.items[?(@.ok==true)].name}"#, Err("ok is not found"));
    check(
        r#"{.items[2:3][?(@.ok)].name}"#,
        Err("map[n:3 name:c z:<nil>] is not array or slice and cannot be filtered"),
    );
    check(r#"{.items[0].status.conditions[?(@.type=='Ready')].status}"#, Ok("True"));
    check(r#"{.items[?(@.status)].name}"#, Ok("a"));
    check(r#"{.items[?(@status)].name}"#, Ok("a b c"));
    check(r#"{.items[?(@.name==1)]}"#, Err("incompatible types for comparison"));
    check(r#"{.items[?(@.tags=="x")]}"#, Err("invalid type for comparison"));
    check(r#"{.items[?(@.n=1)]}"#, Err("unrecognized filter operator ="));
}

#[test]
fn ranges() {
    check(r#"{range .items[*]}{.name}={.n}{"\n"}{end}."#, Ok("a=1\nb=2\nc=3\n."));
    check(r#"{range .empty[*]}{.name}{end}after"#, Err("name is not found"));
    check(r#"{range .empty[*]}{@}{end}after"#, Ok("after"));
    check(r#"{range .items[0:2]}{.name}:{range .tags[*]}{@},{end};{end}"#, Ok("a:x,y,;b:;"));
    check("{end}", Err("not in range, nothing to end"));
}

#[test]
fn errors() {
    check("{.nothing}", Err("nothing is not found"));
    check("{.items[3]}", Err("array index out of bounds: index 3, length 3"));
    check("{.items[-4]}", Err("array index out of bounds: index -1, length 3"));
    check("{.items[2:1]}", Err("starting index 2 is greater than ending index 1"));
    check("{.items[0:2:0]}", Err("step must be > 0"));
    check("{.kind[0]}", Err("string is not array or slice"));
    check("{.kind", Err("unclosed action"));
    check("{.items[0}", Err("unterminated array"));
    check("{.items[a]}", Err("invalid array index a"));
    check("{.items[?(@.a]}", Err("unterminated filter"));
    check("{\"a}", Err("unterminated quoted string"));
    check("{....name}", Err("invalid multiple recursive descent"));
    check("{nope}", Err("unrecognized identifier nope"));
    check("{.a ;}", Err("unrecognized character in action: U+003B ';'"));
}

#[test]
fn missing_keys_can_be_allowed() {
    let data = json::parse(DATA.as_bytes()).unwrap();
    let path = JsonPath::parse("{.nothing.at.all}-{.kind}").unwrap();
    assert_eq!(path.execute(&data, MissingKeys::Allowed).unwrap(), "-List");
}
