//! A page of a bucket's listing (`ListObjectsV2`). The server may be hostile: only names that are ours count later.

use quick_xml::Reader;
use quick_xml::events::Event;

/// The largest number of objects in a page.
const MAX_OBJECTS: usize = 1000;
const MAX_DEPTH: usize = 8;
const MAX_TEXT: usize = 4096;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Keys and sizes.
    pub(crate) objects: Vec<(String, u64)>,
    /// The token of the next page.
    pub(crate) next: Option<String>,
}

/// Parses a page. The error says what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Page, &'static str> {
    let mut reader = Reader::from_str(text);
    let (mut page, mut path, mut content) = (Page::default(), Vec::<String>::new(), String::new());
    let (mut key, mut size, mut is_truncated) = (None, None, false);
    loop {
        match reader.read_event().map_err(|_| "it is no XML")? {
            Event::Start(element) => {
                if path.len() == MAX_DEPTH {
                    return Err("it is too deep");
                }
                path.push(element.local_name().as_ref().to_owned());
                content.clear();
            }
            Event::Text(part) => push(&mut content, &part.xml10_content())?,
            Event::CData(part) => push(&mut content, &part.xml10_content())?,
            Event::GeneralRef(name) => content.push(reference(&name.xml10_content())?),
            Event::End(_) => {
                let elements: Vec<&str> = path.iter().map(String::as_str).collect();
                match elements[..] {
                    ["ListBucketResult", "Contents", "Key"] => key = Some(content.clone()),
                    ["ListBucketResult", "Contents", "Size"] => size = content.parse().ok(),
                    ["ListBucketResult", "Contents"] => {
                        if page.objects.len() == MAX_OBJECTS {
                            return Err("it has too many objects");
                        }
                        page.objects.extend(key.take().zip(size.take()));
                    }
                    ["ListBucketResult", "IsTruncated"] => is_truncated = content == "true",
                    ["ListBucketResult", "NextContinuationToken"] => page.next = Some(content.clone()),
                    _ => {}
                }
                path.pop();
                content.clear();
            }
            Event::Eof if path.is_empty() => break,
            Event::Eof => return Err("it is truncated"),
            _ => {}
        }
    }
    page.next = page.next.filter(|_| is_truncated);
    Ok(page)
}

fn push(content: &mut String, part: &str) -> Result<(), &'static str> {
    if content.len() + part.len() > MAX_TEXT {
        return Err("it has a long text");
    }
    content.push_str(part);
    Ok(())
}

/// The character of a reference. A document that defines others is not parsed.
fn reference(name: &str) -> Result<char, &'static str> {
    match name {
        "amp" => Ok('&'),
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        // Names of archives have no such characters, and tokens none that need a number.
        _ => Err("it has a reference to a character that no name has"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_parsed_whatever_their_namespace() {
        let page = parse(
            r#"<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
               <Contents><Key>a/x.backup</Key><Size>12</Size><Owner><ID>1</ID></Owner></Contents>
               <s3:Contents xmlns:s3="x"><s3:Key>y&amp;z</s3:Key><s3:Size>0</s3:Size></s3:Contents>
               <Contents><Key>without a size</Key></Contents>
               <IsTruncated>true</IsTruncated><NextContinuationToken>t&lt;k=</NextContinuationToken></ListBucketResult>"#,
        );
        let expected =
            Page { objects: vec![("a/x.backup".into(), 12), ("y&z".into(), 0)], next: Some("t<k=".into()) };
        assert_eq!(page, Ok(expected));
        let last = "<ListBucketResult><NextContinuationToken>t</NextContinuationToken></ListBucketResult>";
        assert_eq!(parse(last), Ok(Page::default()), "there is no next page");
    }

    #[test]
    fn hostile_pages_are_refused() {
        let many = "<Contents><Key>k</Key><Size>1</Size></Contents>".repeat(MAX_OBJECTS + 1);
        for bad in [
            "<ListBucketResult>".to_owned(),
            "<a></b>".to_owned(),
            "<a>".repeat(100),
            format!("<a>{}</a>", "x".repeat(MAX_TEXT + 1)),
            format!("<ListBucketResult>{many}</ListBucketResult>"),
            "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>".to_owned(),
        ] {
            assert!(parse(&bad).is_err(), "{}", &bad[..bad.len().min(60)]);
        }
    }
}
