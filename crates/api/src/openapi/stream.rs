//! Version 2 in pieces, as JSON or as protobuf: the document of a server with thousands of custom resources is
//! never in memory as a whole.
//!
//! *Invariant:* a piece is made of some paths, of some definitions, or of one custom resource. Its tree and its schema are dropped before the next piece is made.

use std::collections::BTreeMap;
use std::vec::IntoIter;

use super::documents::{Format, OpenApi, security_schemes};
use super::operations::PathItem;
use super::protobuf::ProtobufSink;
use super::schemas::{self, Definition, Schemas};
use super::{Dialect, custom, names, render};
use crate::schema::StructRef;
use crate::{Value, json};

/// The number of paths or definitions in a piece. A custom resource has fewer of both.
const BATCH: usize = 16;

/// Receives version 2; all pieces of one kind come before the next kind.
pub(super) trait Sink {
    fn path(&mut self, path: &str, item: &Value);
    fn definition(&mut self, name: &str, schema: &Value);
    fn parameter(&mut self, name: &str, parameter: &Value);
    fn finish(&mut self);
    /// Takes what was written since the last time.
    fn take(&mut self) -> Vec<u8>;
}

/// Writes a version 2 document piece by piece.
pub struct V2Stream {
    sink: Box<dyn Sink + Send>,
    step: Step,
    /// The paths of the current document that are not yet written.
    items: IntoIter<PathItem>,
    /// The built-in types that the paths refer to, by name.
    roots: BTreeMap<String, StructRef>,
    /// The parameters that the paths refer to, by name.
    parameters: BTreeMap<String, Value>,
    definitions: IntoIter<(String, Definition)>,
}

enum Step {
    /// The remaining paths, then those of this many-th version 3 document of built-in types.
    Paths(usize),
    /// The paths of this many-th custom resource.
    CustomPaths(usize),
    /// The paths of other servers, from this one on.
    ForeignPaths(usize),
    Definitions,
    CustomDefinitions(usize),
    ForeignDefinitions(usize),
    Parameters,
    Over,
}

impl V2Stream {
    /// Begins a document. Every piece must be made from the same inputs.
    pub fn new(of: &OpenApi<'_>, format: Format) -> Self {
        let sink: Box<dyn Sink + Send> = match format {
            Format::Json => Box::new(JsonSink::new(&of.info())),
            Format::Protobuf => Box::new(ProtobufSink::new(&of.info(), &security_schemes())),
        };
        V2Stream {
            sink,
            step: Step::Paths(0),
            items: Vec::new().into_iter(),
            roots: BTreeMap::new(),
            parameters: BTreeMap::new(),
            definitions: Vec::new().into_iter(),
        }
    }

    /// The next piece; `None` after the last one.
    pub fn next_piece(&mut self, of: &OpenApi<'_>) -> Option<Vec<u8>> {
        loop {
            self.step = match self.step {
                Step::Paths(i) => self.paths(of, i),
                Step::CustomPaths(i) => self.custom_paths(of, i),
                Step::ForeignPaths(i) => self.foreign_paths(of, i),
                Step::Definitions => self.definitions(of),
                Step::CustomDefinitions(i) => self.custom_definitions(of, i),
                Step::ForeignDefinitions(i) => self.foreign_definitions(of, i),
                Step::Parameters => self.shared_parameters(of),
                Step::Over => return None,
            };
            let piece = self.sink.take();
            if !piece.is_empty() {
                return Some(piece);
            }
        }
    }

    fn paths(&mut self, of: &OpenApi<'_>, i: usize) -> Step {
        if self.items.len() > 0 {
            self.write_items();
            return Step::Paths(i);
        }
        let Some(document) = of.built_in_paths().into_iter().nth(i) else { return Step::CustomPaths(0) };
        self.items = of.v3_items(&document).unwrap_or_default().into_iter();
        Step::Paths(i + 1)
    }

    fn custom_paths(&mut self, of: &OpenApi<'_>, i: usize) -> Step {
        if let Some(version) = of.custom.get(i) {
            self.items = custom::paths(version).into_iter();
            self.write_items();
            self.roots.extend(custom::metadata_types());
            return Step::CustomPaths(i + 1);
        }
        Step::ForeignPaths(0)
    }

    fn foreign_paths(&mut self, of: &OpenApi<'_>, i: usize) -> Step {
        let paths = of.foreign.map_or(&[][..], |foreign| &foreign.paths);
        if i < paths.len() {
            for (path, item) in paths.iter().skip(i).take(BATCH) {
                self.sink.path(path, &foreign_value(item));
            }
            return Step::ForeignPaths(i + BATCH);
        }
        let definitions = schemas::reachable(std::mem::take(&mut self.roots).into_values());
        self.definitions = definitions.into_iter().collect::<Vec<_>>().into_iter();
        Step::Definitions
    }

    fn write_items(&mut self) {
        for item in self.items.by_ref().take(BATCH) {
            self.sink.path(&item.path, &render::path_item(&item, Dialect::V2));
            self.roots.extend(render::roots(&item));
            self.parameters.extend(item.operations.iter().flat_map(render::shared_parameters));
        }
    }

    fn definitions(&mut self, of: &OpenApi<'_>) -> Step {
        let versions = names::known_versions();
        let schemas = Schemas { dialect: Dialect::V2, descriptions: of.descriptions, versions: &versions };
        for (name, definition) in self.definitions.by_ref().take(BATCH) {
            self.sink.definition(&name, &schemas.definition(&name, &definition));
        }
        if self.definitions.len() > 0 { Step::Definitions } else { Step::CustomDefinitions(0) }
    }

    fn custom_definitions(&mut self, of: &OpenApi<'_>, i: usize) -> Step {
        let Some(version) = of.custom.get(i) else { return Step::ForeignDefinitions(0) };
        for (name, schema) in custom::definitions(version, Dialect::V2, of.descriptions) {
            // A CRD never replaces a built-in type.
            if !names::is_built_in(&name) {
                self.sink.definition(&name, &schema);
            }
        }
        Step::CustomDefinitions(i + 1)
    }

    fn foreign_definitions(&mut self, of: &OpenApi<'_>, i: usize) -> Step {
        let definitions = of.foreign.map_or(&[][..], |foreign| &foreign.definitions);
        for (name, schema) in definitions.iter().skip(i).take(BATCH) {
            self.sink.definition(name, &foreign_value(schema));
        }
        if i + BATCH < definitions.len() { Step::ForeignDefinitions(i + BATCH) } else { Step::Parameters }
    }

    fn shared_parameters(&mut self, of: &OpenApi<'_>) -> Step {
        let parameters = std::mem::take(&mut self.parameters);
        let foreign = of.foreign.map_or(&[][..], |foreign| &foreign.parameters);
        let foreign = foreign.iter().filter(|(name, _)| !parameters.contains_key(name));
        for (name, parameter) in foreign {
            self.sink.parameter(name, &foreign_value(parameter));
        }
        for (name, parameter) in parameters {
            self.sink.parameter(&name, &parameter);
        }
        self.sink.finish();
        Step::Over
    }
}

/// A part of another server's document.
fn foreign_value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap_or_default()
}

/// Version 2 as JSON text.
struct JsonSink {
    out: Vec<u8>,
    section: Option<&'static str>,
}

impl JsonSink {
    fn new(info: &Value) -> Self {
        let mut out = Vec::new();
        out.extend_from_slice(b"{\"swagger\":\"2.0\",\"info\":");
        json::write(&mut out, info);
        JsonSink { out, section: None }
    }

    fn entry(&mut self, section: &'static str, key: &str, value: &Value) {
        if self.section == Some(section) {
            self.out.push(b',');
        } else {
            self.end_section();
            self.section = Some(section);
            self.out.push(b',');
            json::write_string(&mut self.out, section);
            self.out.extend_from_slice(b":{");
        }
        json::write_string(&mut self.out, key);
        self.out.push(b':');
        json::write(&mut self.out, value);
    }

    fn end_section(&mut self) {
        if self.section.take().is_some() {
            self.out.push(b'}');
        }
    }
}

impl Sink for JsonSink {
    fn path(&mut self, path: &str, item: &Value) {
        self.entry("paths", path, item);
    }

    fn definition(&mut self, name: &str, schema: &Value) {
        self.entry("definitions", name, schema);
    }

    fn parameter(&mut self, name: &str, parameter: &Value) {
        self.entry("parameters", name, parameter);
    }

    fn finish(&mut self) {
        self.end_section();
        self.out.extend_from_slice(b",\"securityDefinitions\":");
        json::write(&mut self.out, &security_schemes());
        self.out.extend_from_slice(b",\"security\":[{\"BearerToken\":[]}]}");
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}
