//! Mail addresses as Go's `mail.ParseAddress` accepts them: an address, a name and an address in angle brackets, or a
//! group of one; comments may follow.
//!
//! Not accepted, unlike there: comments between the parts of an address.

/// Returns true for one mail address.
pub(super) fn is_email(text: &str) -> bool {
    let text = without_comments(text.trim_matches([' ', '\t']));
    let Some(text) = text.map(|text| text.trim_matches([' ', '\t'])) else { return false };
    match text.strip_suffix(';').and_then(|group| group.split_once(':')) {
        Some((name, member)) => !name.is_empty() && is_display_name(name) && is_mailbox(member),
        None => is_mailbox(text),
    }
}

fn is_mailbox(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    if let Some((name, address)) = text.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) {
        return is_display_name(name) && is_address(address.trim_start_matches([' ', '\t']));
    }
    is_address(text)
}

/// The text before trailing comments; none if one is not closed.
fn without_comments(text: &str) -> Option<&str> {
    let mut rest = text;
    while rest.ends_with(')') {
        let start = comment_start(rest)?;
        rest = rest[..start].trim_end_matches([' ', '\t']);
    }
    Some(rest)
}

/// The start of the comment at the end of a text.
fn comment_start(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (i, byte) in text.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

fn is_address(text: &str) -> bool {
    let (local_fits, domain) = if text.starts_with('"') {
        // Not even quoted, the part before the domain is empty.
        let Some(end) = quoted_end(text).filter(|end| *end > 2) else { return false };
        let Some(domain) = text[end..].strip_prefix('@') else { return false };
        (true, domain)
    } else {
        let Some((local, domain)) = text.split_once('@') else { return false };
        (is_dot_atom(local), domain)
    };
    let domain = domain.trim_start_matches([' ', '\t']);
    local_fits && (is_dot_atom(domain) || is_domain_literal(domain))
}

/// The end of the quoted text at the beginning, after its closing quote.
fn quoted_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => {
                if !is_visible(c) && !matches!(c, ' ' | '\t') {
                    return None;
                }
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some(i + 1),
            ' ' | '\t' => {}
            c if is_visible(c) => {}
            _ => return None,
        }
    }
    None
}

fn is_visible(c: char) -> bool {
    ('!'..='~').contains(&c) || !c.is_ascii()
}

fn is_atom_character(c: char) -> bool {
    is_visible(c) && !"()<>[]:;@\\,\".".contains(c)
}

/// Atoms with single dots between them.
fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_character))
}

fn is_domain_literal(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|address| address.parse::<std::net::IpAddr>().is_ok())
}

/// Words: atoms, in which dots are allowed, or quoted texts. There may be none.
fn is_display_name(text: &str) -> bool {
    let mut rest = text.trim_start_matches([' ', '\t']);
    while !rest.is_empty() {
        let end = if rest.starts_with('"') {
            quoted_end(rest)
        } else {
            let end = rest.find(|c: char| !(is_atom_character(c) || c == '.')).unwrap_or(rest.len());
            Some(end).filter(|end| *end > 0)
        };
        let Some(end) = end else { return false };
        rest = rest[end..].trim_start_matches([' ', '\t']);
    }
    true
}
