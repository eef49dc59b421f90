//! The table form of custom resources: `additionalPrinterColumns`.
//!
//! A cell shows the first value that the column's path selects; it is null if there is none or if its type is not the
//! column's.

use corten_api::{Str, Value, duration, go, time};
use jiff::Timestamp;

use crate::jsonpath::{JsonPath, MissingKeys};

/// The columns of one version.
#[derive(Debug, Clone)]
pub struct Columns {
    columns: Vec<Column>,
}

/// One column besides the name.
#[derive(Debug, Clone)]
struct Column {
    header: Header,
    path: JsonPath,
}

/// The definition of a column, as tables list it.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    pub name: Str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: Str,
    pub format: Str,
    pub description: Str,
    /// The field of the metadata that the column shows, whose own description replaces `description`.
    pub metadata_field: Option<&'static str>,
    /// Zero is always shown; above that only in wide output.
    pub priority: i64,
}

const NAME: [&str; 4] = [
    "Name",
    "string",
    "name",
    "Unique among objects of its kind in a namespace; given at creation and never changed.",
];
const AGE: [&str; 4] =
    ["Age", "date", ".metadata.creationTimestamp", "When the object was created, by the server's clock."];

impl Columns {
    /// The columns of a version of a definition. Without any, there is one for the age. Columns from the first on whose
    /// path is invalid are left out.
    pub fn of_version(version: &Value) -> Columns {
        let defined = version.items_at(&["additionalPrinterColumns"]);
        if defined.is_empty() {
            return Columns { columns: Column::age().into_iter().collect() };
        }
        Columns { columns: defined.iter().map_while(Column::defined).collect() }
    }

    /// The columns of the `scale` subresource.
    pub fn of_scale() -> Columns {
        let replicas = |name, path, description| Column::new(name, "integer", path, description);
        let columns = [
            replicas("Desired", ".spec.replicas", "Number of desired replicas"),
            replicas("Available", ".status.replicas", "Number of actual replicas"),
            Column::age(),
        ];
        Columns { columns: columns.into_iter().flatten().collect() }
    }

    /// All columns, the name first.
    pub fn headers(&self) -> Vec<Header> {
        let [name, kind, format, description] = NAME.map(Str::new_static);
        let metadata_field = Some("name");
        let name = Header { name, kind, format, description, metadata_field, priority: 0 };
        std::iter::once(name).chain(self.columns.iter().map(|column| column.header.clone())).collect()
    }

    /// The cells of an object, the name first.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = Value::from(object.str_at(&["metadata", "name"]).unwrap_or_default());
        std::iter::once(name).chain(self.columns.iter().map(|column| column.cell(object, now))).collect()
    }
}

impl Column {
    fn new(name: &'static str, kind: &'static str, path: &str, description: &'static str) -> Option<Column> {
        let header = Header {
            name: Str::new_static(name),
            kind: Str::new_static(kind),
            format: Str::default(),
            description: Str::new_static(description),
            metadata_field: None,
            priority: 0,
        };
        Some(Column { header, path: JsonPath::parse(&format!("{{{path}}}")).ok()? })
    }

    fn age() -> Option<Column> {
        let [name, kind, path, description] = AGE;
        let mut column = Column::new(name, kind, path, description)?;
        column.header.metadata_field = Some("creationTimestamp");
        Some(column)
    }

    fn defined(column: &Value) -> Option<Column> {
        let text = |key: &str| column.str_at(&[key]).unwrap_or_default();
        let path = text("jsonPath");
        let description = match text("description") {
            "" => Str::from(format!("Custom resource definition column (in JSONPath format): {path}")),
            description => Str::new(description),
        };
        let header = Header {
            name: Str::new(text("name")),
            kind: Str::new(text("type")),
            format: Str::new(text("format")),
            description,
            metadata_field: None,
            priority: column.int_at(&["priority"]).unwrap_or(0),
        };
        Some(Column { header, path: JsonPath::parse(&format!("{{{path}}}")).ok()? })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Ok(found) = self.path.find(object, MissingKeys::Allowed) else { return Value::Null };
        let Some(first) = found.first().and_then(|results| results.first()) else { return Value::Null };
        let value = first.0.as_ref();
        match (self.header.kind.as_str(), value) {
            ("string", Value::Null) => Value::from("<no value>"),
            ("string", _) => Value::from(first.text()),
            ("integer" | "number", Value::Int(number)) => Value::Int(*number),
            ("integer", Value::Float(number)) => Value::Int(go::integer(*number)),
            ("number", Value::Float(number)) => Value::Float(*number),
            ("boolean", Value::Bool(value)) => Value::Bool(*value),
            ("date", Value::String(text)) => Value::from(age(text, now)),
            _ => Value::Null,
        }
    }
}

/// The time since a timestamp.
fn age(text: &str, now: Timestamp) -> String {
    if matches!(text, "" | "null" | "0001-01-01T00:00:00Z") {
        return "<unknown>".to_owned();
    }
    time::parse(text).map_or_else(|_| "<invalid>".to_owned(), |then| duration::human_since(then, now))
}

#[cfg(test)]
mod tests {
    use corten_api::{json, value};

    use super::*;

    const OBJECT: &str = r#"{"metadata":{"name":"n","creationTimestamp":"2024-01-01T00:00:00Z"},
        "spec":{"n":3,"f":2.5,"b":true,"s":"x","l":["a",{"<":1}],"z":null,"t":"2024-01-01T00:01:30Z"}}"#;

    #[track_caller]
    fn check(kind: &str, path: &str, expected: Value) {
        let version = value!({"additionalPrinterColumns": [{"name": "C", "type": kind, "jsonPath": path}]});
        let now: Timestamp = "2024-01-01T00:05:00Z".parse().unwrap();
        let object = json::parse(OBJECT.as_bytes()).unwrap();
        let cells = Columns::of_version(&version).cells(&object, now);
        assert_eq!(cells, [Value::from("n"), expected], "{kind} {path}");
    }

    #[test]
    fn cells_have_the_type_of_their_column() {
        check("string", ".spec.s", value!("x"));
        check("string", ".spec.n", value!("3"));
        check("string", ".spec.l", value!(r#"["a",{"\u003c":1}]"#));
        check("string", ".spec.z", value!("<no value>"));
        check("string", ".spec.absent", Value::Null);
        check("string", ".spec.l[*]", value!("a"));
        check("integer", ".spec.n", value!(3));
        check("integer", ".spec.f", value!(2));
        check("integer", ".spec.s", Value::Null);
        check("number", ".spec.f", value!(2.5));
        check("boolean", ".spec.b", value!(true));
        check("boolean", ".spec.s", Value::Null);
        check("date", ".spec.t", value!("3m30s"));
        check("date", ".spec.s", value!("<invalid>"));
        check("date", ".spec.n", Value::Null);
        check("integer", ".spec.l[5]", Value::Null);
    }

    #[test]
    fn without_columns_there_is_the_age() {
        let columns = Columns::of_version(&value!({}));
        let names: Vec<String> = columns.headers().iter().map(|header| header.name.to_string()).collect();
        assert_eq!(names, ["Name", "Age"]);
        let object = json::parse(OBJECT.as_bytes()).unwrap();
        let now: Timestamp = "2024-01-01T01:00:00Z".parse().unwrap();
        assert_eq!(columns.cells(&object, now)[1], value!("60m"));
    }

    #[test]
    fn descriptions_name_the_path_by_default() {
        let version = value!({"additionalPrinterColumns": [
            {"name": "C", "type": "string", "jsonPath": ".a", "priority": 1, "format": "int32"},
            {"name": "D", "type": "string", "jsonPath": ".a[", "description": "d"},
            {"name": "E", "type": "string", "jsonPath": ".b"},
        ]});
        let headers = Columns::of_version(&version).headers();
        assert_eq!(headers.len(), 2);
        assert_eq!(headers[1].description, "Custom resource definition column (in JSONPath format): .a");
        assert_eq!((headers[1].priority, headers[1].format.as_str()), (1, "int32"));
    }
}
