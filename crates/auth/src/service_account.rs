//! The user names and groups of service accounts.

use corten_api::names;

const USER_PREFIX: &str = "system:serviceaccount:";
const GROUP_PREFIX: &str = "system:serviceaccounts:";
/// The group of all service accounts.
pub const ALL_ACCOUNTS: &str = "system:serviceaccounts";

/// The user name of a service account.
pub fn user_name(namespace: &str, name: &str) -> String {
    format!("{USER_PREFIX}{namespace}:{name}")
}

/// The groups of a service account.
pub fn groups(namespace: &str) -> Vec<String> {
    vec![ALL_ACCOUNTS.to_owned(), format!("{GROUP_PREFIX}{namespace}")]
}

/// Namespace and name of the service account in a user name, if it is one.
pub fn split_user_name(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    let good = names::namespace_name(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    good.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_round_trip() {
        assert_eq!(split_user_name(&user_name("ns", "builder.x")), Some(("ns", "builder.x")));
        for odd in
            ["jane", "system:serviceaccount:ns", "system:serviceaccount:ns:a:b", "system:serviceaccount::a"]
        {
            assert_eq!(split_user_name(odd), None, "{odd}");
        }
    }
}
