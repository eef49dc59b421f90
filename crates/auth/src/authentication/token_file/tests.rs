use super::*;

#[test]
fn records_are_users() {
    let text =
        "t1,jane,7,\"devs,ops\"\n\nt2,joe,8\r\n\"t\"\"3\",\"a\nb\",9,x,y\n,empty,0\nt4,eve,1,\nt2,john,10\n";
    let file = TokenFile::parse(text).unwrap();
    let user =
        |token| file.user(token).map(|user| (user.name.clone(), user.uid.clone(), user.groups.join("|")));
    let expected =
        |name: &str, uid: &str, groups: &str| Some((name.to_owned(), uid.to_owned(), groups.to_owned()));
    assert_eq!(user("t1"), expected("jane", "7", "devs|ops|system:authenticated"));
    assert_eq!(user("t2"), expected("john", "10", "system:authenticated"));
    assert_eq!(user("t\"3"), expected("a\nb", "9", "x|system:authenticated"));
    assert_eq!(user("t4"), expected("eve", "1", "|system:authenticated"));
    assert_eq!(user(""), None);
    assert_eq!(user("t"), None);
}

#[test]
fn invalid_files_are_refused() {
    let error = |text| TokenFile::parse(text).unwrap_err();
    assert_eq!(error("a,b\n"), TokenFileError::Columns { found: 2 });
    assert_eq!(error("a,b,c\nt,u\"x,v\n"), TokenFileError::BareQuote { line: 2 });
    assert_eq!(error("a,b,\"c\n"), TokenFileError::Quote { line: 1 });
    assert_eq!(error("a,b,\"c\"d\n"), TokenFileError::Quote { line: 1 });
    assert!(TokenFile::parse("").unwrap().user("x").is_none());
}
