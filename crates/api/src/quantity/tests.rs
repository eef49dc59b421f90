use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
    let again = canonical(expected).unwrap();
    assert_eq!(Quantity::parse(&again), Quantity::parse(expected), "{text}");
}

#[track_caller]
fn check_error(text: &str, expected: QuantityError) {
    assert_eq!(Quantity::parse(text), Err(expected), "{text:?}");
}

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

#[test]
fn plain_text_stays() {
    for text in ["0", "1", "100m", "128Mi", "2Gi", "1e3", "1E6", "500m", "-5", "12E", "7n", "3Ei", "1e-3"] {
        check(text, text);
    }
}

#[test]
fn canonical_enough_stays_too() {
    for text in ["+5", "05", "1.500", "+5Gi", "-1Ki", "1234.567k", "100.035k"] {
        check(text, text);
    }
    check("+5Pi", "5Pi");
}

#[test]
fn factors_move_into_the_suffix() {
    check("1000m", "1");
    check("1000", "1k");
    check("0.5", "500m");
    check("1024Mi", "1Gi");
    check("1024Ki", "1Mi");
    check("1000Ki", "1000Ki");
    check("10000000", "10M");
    check("1.5Gi", "1536Mi");
    check("0.5Ki", "512");
    check("8Ki", "8Ki");
    check("1e14", "100e12");
    check("1.3E+6", "1300e3");
    check("0.5e-1", "50e-3");
    check("40.1T", "40100G");
    check("123456Gi", "123456Gi");
    check("1048576Gi", "1Pi");
}

#[test]
fn binary_fractions_become_decimal() {
    check("0.1Gi", "107374182400m");
    check("100.035Ki", "102435840m");
    check("0.05Gi", "53687091200m");
    check("0.000000000001Ki", "2n");
}

#[test]
fn too_fine_rounds_up_and_too_large_is_capped() {
    check("3.001n", "4n");
    check("0.0000000001", "1n");
    check("0.00000012345", "124n");
    check("-0.0000000001", "-1n");
    check("1e-100", "1e-9");
    check("9Ei", "9223372036854775807");
    check("9223372036854775807Ki", "9223372036854775807");
    check("-100Ei", "-9223372036854775807");
    check("99999999999999999999999999999999999999999999Ki", "9223372036854775807");
    check("1e100", "10e99");
    check("10e2147483646", "10e2147483646");
    check("1.5e-2147483648", "1e-9");
    check("1000000000000000000000", "1");
    check("123456789012345678901", "123456789012345678901");
    check("549869004007050000300632.0729403376643e15", "549869004007050000300632072940337664300");
}

#[test]
fn oddities_are_upstreams() {
    check(" 1 ", "1");
    check(".", "0");
    check("m", "0");
    check("-0", "0");
    check("0Ki", "0");
    check("00", "0");
    check("1.", "1.");
    check("1.G", "1.G");
    check(".001", "1m");
}

#[test]
fn invalid_input_is_refused() {
    for text in ["", " ", "1.2.3", "1 Ki", "ab", "1Q", "1KI", "1e1x", "\u{661}"] {
        check_error(text, QuantityError::Format);
    }
    for text in ["1e", "1mm", "1ki", "1i", "1-5", "--1", "1ee3", "1e+", "1e99999999999999999999"] {
        check_error(text, QuantityError::Suffix);
    }
    check_error("Pi", QuantityError::Numeric);
    check_error("-e-16", QuantityError::Numeric);
    assert_eq!(
        canonical("x").unwrap_err(),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}

#[test]
fn order_is_that_of_the_numbers() {
    assert_eq!(quantity("1"), quantity("1000m"));
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert!(quantity("999m") < quantity("1"));
    assert!(quantity("1Gi") > quantity("1G"));
    assert!(quantity("-1Gi") < quantity("1n"));
    assert!(quantity("1e200") > quantity("1n"));
    assert!(quantity("-1e200") < quantity("-1n"));
    assert!(quantity("0") < quantity("1n"));
}

#[test]
fn sums_keep_the_notation() {
    let mut sum = quantity("100m");
    sum.add(quantity("900m"));
    assert_eq!(sum.to_str(), "1");
    let mut sum = quantity("0");
    sum.add(quantity("1Gi"));
    sum.add(quantity("512Mi"));
    assert_eq!(sum.to_str(), "1536Mi");
    sum.sub(quantity("1536Mi"));
    assert!(sum.is_zero());
    let mut wide = quantity("1e60");
    wide.add(quantity("1n"));
    assert!(wide > quantity("1e60"));
    assert_eq!(quantity("3m").times(1000).to_str(), "3");
}

#[test]
fn whole_numbers_round_away_from_zero() {
    assert_eq!(quantity("1500m").value(), 2);
    assert_eq!(quantity("-1500m").value(), -2);
    assert_eq!(quantity("1n").milli_value(), 1);
    assert_eq!(quantity("1Gi").value(), 1 << 30);
    assert_eq!(quantity("2").milli_value(), 2000);
    assert_eq!(quantity("1e100").value(), i64::MAX);
    assert_eq!(quantity("1.5").as_f64(), 1.5);
}
