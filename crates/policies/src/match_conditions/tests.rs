use super::*;
use crate::testing::Sample;
use corten_api::json;

#[track_caller]
fn check(conditions: &str, policy: FailurePolicy, expected: &Match) {
    let conditions = json::parse(conditions.as_bytes()).unwrap();
    let compiled = MatchConditions::compile(Some(&conditions), policy);
    assert_eq!(&compiled.evaluate(&Sample::default()).verdict, expected, "{conditions:?}");
}

fn no(name: &str) -> Match {
    Match::No(Str::from(name))
}

const TRUE: &str = r#"{"name":"true","expression":"true"}"#;
const FALSE: &str = r#"{"name":"false","expression":"object.metadata.name == 'other'"}"#;
const FAILS: &str = r#"{"name":"fails","expression":"object.nothing == 1"}"#;

#[test]
fn conditions() {
    use FailurePolicy::{Fail, Ignore};
    check("[]", Fail, &Match::Yes);
    check(&format!("[{TRUE}]"), Fail, &Match::Yes);
    check(&format!("[{TRUE},{FALSE}]"), Fail, &no("false"));
    let error = "expression 'object.nothing == 1' resulted in error: no such key: nothing";
    check(&format!("[{TRUE},{FAILS}]"), Fail, &Match::Error(error.into()));
    check(&format!("[{TRUE},{FAILS}]"), Ignore, &no(""));
    check(&format!("[{FAILS},{FALSE}]"), Fail, &no("false"));
    let broken = r#"{"name":"broken","expression":"nothing"}"#;
    let error = "compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing\n | ^";
    check(&format!("[{broken}]"), Fail, &Match::Error(error.into()));
}

#[test]
fn errors_are_counted_up_to_the_first_condition_that_is_false() {
    let errors = |conditions: &str| {
        let conditions = json::parse(conditions.as_bytes()).unwrap();
        MatchConditions::compile(Some(&conditions), FailurePolicy::Fail).evaluate(&Sample::default()).errors
    };
    assert_eq!(errors(&format!("[{TRUE}]")), 0);
    assert_eq!(errors(&format!("[{FAILS},{TRUE},{FAILS}]")), 2);
    assert_eq!(errors(&format!("[{FAILS},{FALSE},{FAILS}]")), 1);
}

#[test]
fn variables_of_webhooks() {
    let yes = |expression: &str| {
        let text = expression.replace('"', "\\\"");
        check(&format!(r#"[{{"name":"c","expression":"{text}"}}]"#), FailurePolicy::Fail, &Match::Yes);
    };
    yes("request.operation == 'CREATE' && request.userInfo.username == 'jane'");
    yes("oldObject == null");
    yes("namespaceObject == null");
    yes("authorizer.group('').resource('pods').check('get').allowed()");
    yes("authorizer.requestResource.check('get').allowed()");
    yes("!has(request.options)");
}

#[test]
fn expensive_conditions_end() {
    let text = "[0,1,2,3,4,5,6,7,8,9]";
    let nested = format!("{text}.all(a, {text}.all(b, {text}.all(c, {text}.all(d, {text}.all(e, true)))))");
    let one = format!(r#"{{"name":"c","expression":"{nested}"}}"#);
    let all = vec![one; 40].join(",");
    check(&format!("[{all}]"), FailurePolicy::Fail, &Match::Error(crate::activation::OUT_OF_BUDGET.into()));
}
