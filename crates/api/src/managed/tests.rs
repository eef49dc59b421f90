//! The cases of upstream's tests, as tables: each case is a list of requests and the owners they leave.

mod applying;
mod creating;
mod recorded;
mod scaling;
mod sets;
mod updating;
mod versions;

use super::*;
use crate::conform::{Extent, conform};
use crate::status::Status;
use crate::{json, schema};

/// One request of a case: the manager and what it sends.
#[derive(Clone, Copy)]
enum Do<'a> {
    Create(&'a str, &'a str),
    Update(&'a str, &'a str),
    /// An update through `/status`, whose strategy prevents the ownership of `spec`.
    Status(&'a str, &'a str),
    Apply(&'a str, &'a str),
    Force(&'a str, &'a str),
}
use Do::{Apply, Create, Force, Status as UpdateStatus, Update};

/// A server with one object.
struct World {
    schema: StructRef,
    api_version: String,
    kind: String,
    live: Option<Value>,
    seconds: usize,
}

impl World {
    /// `type_name` is `apps/v1.Deployment`; `package` in it is as the schema table spells it.
    fn new(type_name: &str) -> World {
        let (package, kind) = type_name.rsplit_once('.').unwrap();
        World {
            schema: schema::lookup(package, kind).unwrap(),
            api_version: package.trim_start_matches("core/").to_owned(),
            kind: kind.to_owned(),
            live: None,
            seconds: 0,
        }
    }

    fn parse(&self, text: &str, extent: Extent) -> Value {
        let mut value = json::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e}: {text}"));
        value.set(&["apiVersion"], self.api_version.as_str());
        value.set(&["kind"], self.kind.as_str());
        if extent == Extent::Whole {
            self.conform(&mut value, extent);
        }
        value
    }

    fn conform(&self, value: &mut Value, extent: Extent) {
        conform(value, &self.schema, extent, &mut Vec::new()).unwrap();
        value.set(&["metadata", "uid"], "u");
    }

    /// Handles a request as a server does: one that only changes times changes nothing.
    fn run(&mut self, step: Do<'_>) -> Result<(), Status> {
        let old = self.live.clone();
        self.run_keeping_new_times(step)?;
        if let (Some(old), Some(new)) = (old, self.live.as_mut()) {
            keep_times(&old, new);
        }
        Ok(())
    }

    fn run_keeping_new_times(&mut self, step: Do<'_>) -> Result<(), Status> {
        self.seconds += 1;
        let now = format!("2026-01-01T00:00:{:02}Z", self.seconds);
        let main = Filter::Exclude(Set::of_fields(&[&["status"]]));
        let status = Filter::Exclude(Set::of_fields(&[&["spec"]]));
        let (Create(manager, text)
        | Update(manager, text)
        | UpdateStatus(manager, text)
        | Apply(manager, text)
        | Force(manager, text)) = step;
        let is_status = matches!(step, UpdateStatus(..));
        let ctx = Context {
            schema: &self.schema,
            api_version: &self.api_version,
            manager,
            subresource: if is_status { "status" } else { "" },
            now: &now,
            filter: Some(if is_status { &status } else { &main }),
            versions: None,
        };
        let old = self.live.as_ref();
        let mut new = match step {
            Apply(..) | Force(..) => {
                apply(&ctx, old, &self.parse(text, Extent::Partial), matches!(step, Force(..)))?
            }
            Create(..) | Update(..) | UpdateStatus(..) => {
                let mut new = self.parse(text, Extent::Whole);
                update(&ctx, old, &mut new);
                new
            }
        };
        self.conform(&mut new, Extent::Whole);
        self.live = Some(new);
        Ok(())
    }

    /// `manager operation[/subresource]@second: fields` per entry.
    fn owners(&self) -> Vec<String> {
        let entries = self.live.as_ref().map(|live| live.items_at(MANAGED_FIELDS)).unwrap_or_default();
        let line = |e: &Value| {
            let text = |key| e.str_at(&[key]).unwrap_or_default();
            let Some(Value::Raw(fields)) = e.get("fieldsV1") else { panic!("{e:?}") };
            let set = Set::parse(fields).unwrap();
            assert_eq!(set.to_text(), *fields, "the text is the set's one text");
            let slash = if text("subresource").is_empty() { "" } else { "/" };
            let time = text("time").get(17..19).map_or("never", |t| t.trim_start_matches('0'));
            let fields = set.paths(usize::MAX).join(" ");
            format!(
                "{} {}{slash}{}@{time}: {fields}",
                text("manager"),
                text("operation"),
                text("subresource")
            )
        };
        entries.iter().map(line).collect()
    }

    /// The object without irrelevant fields.
    fn object(&self) -> String {
        let mut object = self.live.clone().unwrap_or_default();
        for path in [&["apiVersion"][..], &["kind"], &["metadata", "managedFields"], &["metadata", "uid"]] {
            object.remove(path);
        }
        json::write_to_string(&object)
    }
}

/// Runs requests, all of which succeed, and compares the owners they leave.
#[track_caller]
fn check(type_name: &str, steps: &[Do<'_>], owners: &[&str]) -> World {
    let mut world = World::new(type_name);
    for step in steps {
        world.run(*step).unwrap();
    }
    assert_eq!(world.owners(), owners);
    world
}

/// Runs requests, the last of which is refused, and compares the reason.
#[track_caller]
fn refused(type_name: &str, steps: &[Do<'_>], code: u16, message: &str) -> Status {
    let mut world = World::new(type_name);
    let (last, steps) = steps.split_last().unwrap();
    for step in steps {
        world.run(*step).unwrap();
    }
    let status = world.run(*last).unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (code, message));
    status
}
