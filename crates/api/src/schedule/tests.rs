//! The times of schedules.

use super::*;

/// The first few times after one, in a time zone.
#[track_caller]
fn check(schedule: &str, zone: &str, after: &str, expected: &[&str]) {
    let zone = time_zone(zone).unwrap();
    let parsed = Schedule::parse(schedule).unwrap();
    let mut at: Timestamp = after.parse().unwrap();
    let found: Vec<String> = (0..expected.len())
        .map_while(|_| {
            at = parsed.next(at, &zone)?;
            Some(at.to_string())
        })
        .collect();
    assert_eq!(found, expected, "{schedule}");
}

#[test]
fn schedules_that_make_sense() {
    for schedule in [
        "* * * * *",
        "*/5 0-6/2 1,15 jan-DEC sun",
        "5/15 ? * * 0-6",
        "@hourly",
        "@every 1h30m",
        "TZ=Europe/Berlin 0 0 * * *",
        "CRON_TZ=Local 0 0 * * *",
        "TZ= 0 0 * * *",
        ", * * * *",
    ] {
        assert!(Schedule::parse(schedule).is_ok(), "{schedule}");
    }
}

#[test]
fn schedules_that_make_none() {
    for (schedule, why) in [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("@never", "unrecognized descriptor: @never"),
        ("@every day", "failed to parse duration @every day: time: invalid duration \"day\""),
        ("TZ=Mars/Base * * * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
    ] {
        assert_eq!(Schedule::parse(schedule), Err(why.to_owned()), "{schedule}");
    }
}

#[test]
fn next_times_of_schedules() {
    let start = "2026-01-01T09:59:30.5Z";
    let cases = [
        ("* * * * *", ["2026-01-01T10:00:00Z", "2026-01-01T10:01:00Z"]),
        ("*/20 * * * *", ["2026-01-01T10:00:00Z", "2026-01-01T10:20:00Z"]),
        ("50/5 * * * *", ["2026-01-01T10:50:00Z", "2026-01-01T10:55:00Z"]),
        ("0 6-16/4 * * *", ["2026-01-01T10:00:00Z", "2026-01-01T14:00:00Z"]),
        ("30 8,20 * * *", ["2026-01-01T20:30:00Z", "2026-01-02T08:30:00Z"]),
        ("0 0 * feb *", ["2026-02-01T00:00:00Z", "2026-02-02T00:00:00Z"]),
        ("0 12 * * MON-fri", ["2026-01-01T12:00:00Z", "2026-01-02T12:00:00Z"]),
        ("0 12 * * sat,sun", ["2026-01-03T12:00:00Z", "2026-01-04T12:00:00Z"]),
        ("0 0 31 * *", ["2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        ("@yearly", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
        ("@monthly", ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"]),
        ("@weekly", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]),
        ("@daily", ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]),
        ("@hourly", ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]),
        ("@every 90m", ["2026-01-01T11:29:30Z", "2026-01-01T12:59:30Z"]),
        ("@every 1ms", ["2026-01-01T09:59:31Z", "2026-01-01T09:59:32Z"]),
        ("TZ=Asia/Tokyo 0 9 * * *", ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]),
    ];
    for (schedule, expected) in cases {
        check(schedule, "UTC", start, &expected);
    }
}

#[test]
fn either_day_will_do_unless_one_is_any() {
    let start = "2026-01-01T00:00:00Z";
    check("0 0 10 * 1", "UTC", start, &["2026-01-05T00:00:00Z", "2026-01-10T00:00:00Z"]);
    check("0 0 * * 1", "UTC", start, &["2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"]);
    check("0 0 10 * *", "UTC", start, &["2026-01-10T00:00:00Z", "2026-02-10T00:00:00Z"]);
    // A step is not `*`: every second day of the month, and every Monday.
    check("0 0 */2 * 1", "UTC", start, &["2026-01-03T00:00:00Z", "2026-01-05T00:00:00Z"]);
}

#[test]
fn days_that_never_come() {
    let never = Schedule::parse("59 23 31 2 *").unwrap();
    assert_eq!(never.next("2026-01-01T00:00:00Z".parse().unwrap(), &TimeZone::UTC), None);
}

#[test]
fn clocks_leap_in_spring() {
    let berlin = "Europe/Berlin";
    check("30 2 * * *", berlin, "2026-03-28T12:00:00Z", &["2026-03-30T00:30:00Z"]);
    check("0 * * * *", berlin, "2026-03-29T00:00:00Z", &["2026-03-29T01:00:00Z"]);
    // Where midnight is skipped the day begins an hour late.
    let sao_paulo = "America/Sao_Paulo";
    check("0 1 * * *", sao_paulo, "2018-11-03T12:00:00Z", &["2018-11-04T03:00:00Z"]);
    check("0 0 * * *", sao_paulo, "2018-11-03T12:00:00Z", &["2018-11-05T02:00:00Z"]);
}

#[test]
fn clocks_show_an_hour_twice_in_autumn() {
    let expected = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"];
    check("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &expected);
    let expected = ["2026-10-24T23:00:00Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"];
    check("0 * * * *", "Europe/Berlin", "2026-10-24T22:30:00Z", &expected);
}

#[test]
fn every_time_zone_is_known() {
    assert!(TIME_ZONES.lines().is_sorted());
    let unknown: Vec<_> = TIME_ZONES.lines().filter(|name| time_zone(name).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(is_time_zone("America/New_York") && !is_time_zone("America/Old_York"));
    assert_eq!(time_zone("europe/berlin"), None);
}
