//! Large lists in another form than the objects are kept in: tables, metadata only, indented JSON, YAML, other versions.
//!
//! *Invariant:* one object's tree is held at a time, and a frame is made when the connection takes it: the memory of a list does
//! not grow with its length. Between frames other tasks of the thread have their turn.
//!
//! An object that cannot be converted ends the text where it stands, so that no client takes it for a whole list: the
//! answer's status is on its way by then.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use corten_api::{Status, Value, json, yaml};

use crate::body::FRAME;
use crate::negotiate::{Format, Wanted};
use crate::object::Object;

/// Stands for the items in the text that surrounds them.
const PLACE: &str = "corten-items";
/// The most bytes of objects that are parsed for one frame: a row of a table is short, however long its object is.
const MAX_INPUT: usize = 256 * 1024;
/// Ends a text that is cut off: neither JSON nor YAML can be parsed with it.
const BROKEN: &[u8] = b"\n}{\n";

type Show = Box<dyn Fn(&Object) -> Result<Value, Status> + Send>;

/// A list that is written as it is sent.
pub(crate) struct Rendered {
    writer: Writer,
    head: Vec<u8>,
    tail: Vec<u8>,
    objects: IntoIter<Arc<Object>>,
    show: Show,
    is_first: bool,
    is_over: bool,
    /// A frame was just made: others have their turn first.
    pub(crate) rests: bool,
}

#[derive(Clone, Copy)]
struct Writer {
    format: Format,
    pretty: bool,
}

impl Writer {
    fn whole(self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        match (self.format, self.pretty) {
            (Format::Yaml, _) => out = yaml::to_string(value).into_bytes(),
            (_, true) => json::write_pretty(&mut out, value),
            (_, false) => json::write(&mut out, value),
        }
        out
    }

    /// Appends an item as it looks inside a list of the outermost object.
    fn item(self, out: &mut Vec<u8>, item: &Value, is_first: bool) {
        let text = self.whole(item);
        let (separator, indent): (&[u8], &[u8]) = match (self.format, self.pretty) {
            (Format::Yaml, _) => (b"- ", b"  "),
            (_, true) => (b",\n    ", b"    "),
            (_, false) => (b",", b""),
        };
        if !is_first {
            out.extend_from_slice(separator);
        }
        for (i, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if i > 0 && line != b"\n" {
                out.extend_from_slice(indent);
            }
            out.extend_from_slice(line);
        }
    }
}

impl Rendered {
    /// `surround` makes the list around the items that it is given. There is at least one object.
    pub(crate) fn new(
        wanted: Wanted,
        surround: impl FnOnce(Vec<Value>) -> Value,
        objects: Vec<Arc<Object>>,
        show: Show,
    ) -> Option<Rendered> {
        // Protobuf says how long a list is before it begins.
        if wanted.format == Format::Protobuf || objects.is_empty() {
            return None;
        }
        let writer = Writer { format: wanted.format, pretty: wanted.pretty };
        let around = String::from_utf8(writer.whole(&surround(vec![Value::from(PLACE)]))).ok()?;
        let (head, tail) = match wanted.format {
            Format::Yaml => around.split_once(&format!("{PLACE}\n"))?,
            _ => around.split_once(&format!("\"{PLACE}\""))?,
        };
        let end = if wanted.format == Format::Yaml { "" } else { "\n" };
        Some(Rendered {
            writer,
            head: head.as_bytes().to_vec(),
            tail: format!("{tail}{end}").into_bytes(),
            objects: objects.into_iter(),
            show,
            is_first: true,
            is_over: false,
            rests: false,
        })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) fn next_frame(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        self.rests = true;
        let mut out = std::mem::take(&mut self.head);
        let mut parsed = 0;
        while out.len() < FRAME && parsed < MAX_INPUT {
            let Some(object) = self.objects.next() else {
                out.append(&mut self.tail);
                self.is_over = true;
                break;
            };
            parsed += object.json.len();
            let shown = catch_unwind(AssertUnwindSafe(|| (self.show)(&object)));
            match shown.unwrap_or_else(|_| Err(Status::internal("panicked while rendering the object"))) {
                Ok(item) => self.writer.item(&mut out, &item, std::mem::take(&mut self.is_first)),
                Err(status) => {
                    tracing::error!(
                        namespace = object.namespace.as_str(),
                        name = object.name.as_str(),
                        err = status.message,
                        "cannot render object in list; truncating the response"
                    );
                    out.extend_from_slice(BROKEN);
                    self.is_over = true;
                    break;
                }
            }
        }
        Some(out.into())
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::negotiate::View;

    fn around(items: Vec<Value>) -> Value {
        value!({"apiVersion": "v1", "items": (items), "kind": "PodList", "metadata": {"resourceVersion": "7"}})
    }

    fn table(rows: Vec<Value>) -> Value {
        value!({"apiVersion": "meta.k8s.io/v1", "columnDefinitions": [{"name": "Name"}], "kind": "Table",
            "metadata": {"continue": "x"}, "rows": (rows)})
    }

    fn items() -> Vec<Value> {
        vec![
            value!({"metadata": {"name": "a", "labels": {}}, "data": {"text": "one\n  two\n\nthree\n", "empty": ""}}),
            value!({"metadata": {"name": "b"}, "list": ["x", {"y": [1, 2.5, true, null]}, []]}),
            value!({"cells": ["a: b", "- c", "#", "\u{e9}\u{2028}", "{}", ("long ".repeat(60))], "object": null}),
            value!({}),
        ]
    }

    fn text(mut rendered: Rendered) -> String {
        let frames = std::iter::from_fn(|| rendered.next_frame());
        String::from_utf8(frames.flat_map(|frame| frame.to_vec()).collect()).unwrap()
    }

    #[test]
    fn the_text_is_that_of_the_whole_tree() {
        for surround in [around, table] {
            for (format, pretty) in [(Format::Json, false), (Format::Json, true), (Format::Yaml, false)] {
                let objects = (0..items().len()).map(Object::numbered).map(Arc::new).collect();
                let wanted = Wanted { format, view: View::Object, pretty };
                let show: Show = Box::new(|object| Ok(items()[object.revision as usize].clone()));
                let streamed = text(Rendered::new(wanted, surround, objects, show).unwrap());
                let mut whole =
                    String::from_utf8(Writer { format, pretty }.whole(&surround(items()))).unwrap();
                if format == Format::Json {
                    whole.push('\n');
                }
                assert_eq!(streamed, whole);
            }
        }
    }

    /// An attack: a list of many large objects as a table or as YAML. Its trees would be ten times its text.
    #[test]
    fn a_list_is_never_held_whole() {
        let large = value!({"metadata": {"name": "a"}, "list": (vec![value!({"a": "b"}); 200])});
        let objects: Vec<Arc<Object>> = (0..20_000).map(Object::numbered).map(Arc::new).collect();
        let wanted = Wanted { format: Format::Yaml, view: View::Object, pretty: false };
        let show: Show = Box::new(move |_| Ok(large.clone()));
        let mut rendered = Rendered::new(wanted, around, objects, show).unwrap();
        let mut sent = 0;
        let held = crate::meter::allocations::peak(|| {
            while let Some(frame) = rendered.next_frame() {
                sent += frame.len();
            }
        });
        assert!(sent > 30 << 20, "{sent}");
        assert!(held < 4 << 20, "{held} bytes were held for a list of {sent}");
    }

    #[test]
    fn a_list_with_an_object_that_cannot_be_shown_is_no_whole_list() {
        fn fails(object: &Object) -> Result<Value, Status> {
            match object.revision {
                0 => Ok(value!({"a": 1})),
                1 => Err(Status::internal("cannot be converted")),
                _ => panic!("cannot be converted"),
            }
        }
        for (format, failing) in [(Format::Json, 1), (Format::Json, 2), (Format::Yaml, 1), (Format::Yaml, 2)]
        {
            let objects = vec![Arc::new(Object::numbered(0)), Arc::new(Object::numbered(failing))];
            let wanted = Wanted { format, view: View::Object, pretty: false };
            let sent = text(Rendered::new(wanted, around, objects, Box::new(fails)).unwrap());
            assert!(json::parse(sent.as_bytes()).is_err(), "{sent}");
            assert!(yaml::to_value(sent.as_bytes(), &mut Vec::new()).is_err(), "{sent}");
        }
    }

    /// An attack: rows of a table are short, so that many large objects would be parsed for one frame.
    #[test]
    fn a_frame_is_made_of_a_bounded_part_of_the_objects() {
        let large = || {
            let mut object = Object::numbered(0);
            object.json = vec![b' '; 1 << 20].into();
            Arc::new(object)
        };
        let wanted = Wanted { format: Format::Json, view: View::Object, pretty: false };
        let show: Show = Box::new(|_| Ok(value!({"cells": ["a"]})));
        let mut rendered = Rendered::new(wanted, table, (0..20).map(|_| large()).collect(), show).unwrap();
        assert_eq!(std::iter::from_fn(|| rendered.next_frame()).count(), 21);
    }
}
