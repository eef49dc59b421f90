//! The names service accounts go by as users.

use corten_api::names;

const USER_PREFIX: &str = "system:serviceaccount:";
const GROUP_PREFIX: &str = "system:serviceaccounts:";
/// Every service account.
pub const ALL_ACCOUNTS: &str = "system:serviceaccounts";

/// The user a service account is.
pub fn user_name(namespace: &str, name: &str) -> String {
    format!("{USER_PREFIX}{namespace}:{name}")
}

/// The groups a service account is in.
pub fn groups(namespace: &str) -> Vec<String> {
    vec![ALL_ACCOUNTS.to_owned(), format!("{GROUP_PREFIX}{namespace}")]
}

/// Namespace and name of the service account a user is, if it is one.
pub fn split_user_name(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    let good = names::namespace_name(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    good.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_as_they_are_made() {
        assert_eq!(split_user_name(&user_name("ns", "builder.x")), Some(("ns", "builder.x")));
        for odd in
            ["jane", "system:serviceaccount:ns", "system:serviceaccount:ns:a:b", "system:serviceaccount::a"]
        {
            assert_eq!(split_user_name(odd), None, "{odd}");
        }
    }
}
