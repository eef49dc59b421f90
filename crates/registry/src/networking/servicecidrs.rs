//! Service CIDRs: ranges that cluster IPs come from.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, joined, name, text};
use crate::validation::ip::{self, Cidr};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "servicecidrs",
    storage_prefix: "servicecidrs",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create: |object, errors| validate_ranges(ranges(object), errors),
    validate_update,
    columns: &[
        NAME,
        text("CIDRs", "The ranges: one, or one of each family.").of("networking/v1.ServiceCIDRSpec", "cidrs"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), joined(object, &["spec", "cidrs"], ","), age(object, context)]
}

const CIDRS: Field<'static> = Field::new("spec").child("cidrs");

fn ranges(object: &Value) -> &[Value] {
    object.items_at(&["spec", "cidrs"])
}

fn validate_ranges(ranges: &[Value], errors: &mut ErrorList) {
    match ranges {
        [] => errors.required(CIDRS, "at least one CIDR required"),
        [_] | [_, _] => {
            for (i, range) in ranges.iter().enumerate() {
                ip::canonical_cidr(range.as_str().unwrap_or_default(), &CIDRS.index(i), errors);
            }
            let mut families = ranges.iter().map(|range| is_ipv4(range.as_str().unwrap_or_default()));
            if let (Some(Some(first)), Some(Some(second))) = (families.next(), families.next())
                && first == second
            {
                let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
                errors.invalid(CIDRS, &Value::from(ranges.to_vec()), why);
            }
        }
        _ => {
            let mut spec = Value::object();
            spec.set(&["CIDRs"], ranges.to_vec());
            errors.invalid(CIDRS, &spec, "may only hold up to 2 values");
        }
    }
}

/// The family of a valid range.
fn is_ipv4(range: &str) -> Option<bool> {
    Cidr::parse_sloppy(range).map(|cidr| cidr.address.to_canonical().is_ipv4())
}

/// Ranges are immutable; a second one, of the other family, may be added.
fn validate_update(object: &Value, old: &Value, errors: &mut ErrorList) {
    let (new, old) = (ranges(object), ranges(old));
    let mut unchanged = |i: usize| {
        if new.get(i) != old.get(i) {
            errors.invalid(CIDRS.index(i), new.get(i).unwrap_or(&Value::Null), "field is immutable");
        }
    };
    match (old.len(), new.len()) {
        (before, after) if before == after => (0..after).for_each(unchanged),
        (1, 2) => {
            unchanged(0);
            validate_ranges(new, errors);
        }
        (_, 0) => errors.invalid(CIDRS, &Value::Null, "field is immutable"),
        _ => errors.invalid(CIDRS, &Value::from(new.to_vec()), "field is immutable"),
    }
}
