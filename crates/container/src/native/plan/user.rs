//! The identity of a container's processes, from its configuration and its image.

use crate::image::Process;
use crate::{ContainerSecurityContext, ContainerUser, Error, Result, SupplementalGroupsPolicy};

/// The image's `/etc/passwd` and `/etc/group`.
#[derive(Debug, Default, Clone)]
pub(crate) struct Accounts {
    pub(crate) passwd: String,
    pub(crate) group: String,
}

/// A user in the image's `/etc/passwd`.
struct Account<'a> {
    name: &'a str,
    uid: i64,
    gid: i64,
    home: &'a str,
}

/// Identity and home.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: ContainerUser,
    pub(crate) home: String,
}

pub(crate) fn identity(
    asked: &ContainerSecurityContext,
    image: &Process,
    accounts: &Accounts,
) -> Result<Identity> {
    let (image_user, image_group) = image.user.split_once(':').unwrap_or((&image.user, ""));
    let asks = asked.run_as_user.is_some() || !asked.run_as_username.is_empty();
    let name = match asked.run_as_user {
        Some(uid) => uid.to_string(),
        None if asks => asked.run_as_username.clone(),
        None => image_user.to_owned(),
    };
    let account = find(accounts, &name);
    let uid = match (number(&name), &account) {
        (Some(uid), _) => uid,
        (None, Some(account)) => account.uid,
        (None, None) => return Err(unknown("user", &name)),
    };
    let gid = match asked.run_as_group {
        Some(gid) => gid,
        None if !asks && !image_group.is_empty() => group_id(accounts, image_group)?,
        None => account.as_ref().map_or(0, |account| account.gid),
    };
    let mut groups = vec![gid];
    if asked.supplemental_groups_policy == SupplementalGroupsPolicy::Merge
        && let Some(account) = &account
    {
        groups.extend(memberships(accounts, account.name));
    }
    groups.extend(&asked.supplemental_groups);
    let mut seen = std::collections::BTreeSet::new();
    groups.retain(|group| seen.insert(*group));
    let valid = |id: &i64| (0..=i64::from(i32::MAX)).contains(id);
    if let Some(wrong) = [uid].iter().chain(&groups).find(|id| !valid(id)) {
        return Err(Error::InvalidArgument(format!("invalid user or group id {wrong}")));
    }
    let home = account.map_or("/", |account| account.home).to_owned();
    Ok(Identity { user: ContainerUser { uid, gid, supplemental_groups: groups }, home })
}

fn unknown(what: &str, name: &str) -> Error {
    Error::InvalidArgument(format!("unable to find {what} {name}: no matching entries in the image"))
}

/// A number is always an id: a user that an image calls `1000` does not change the meaning of `runAsUser: 1000`.
fn number(name: &str) -> Option<i64> {
    if name.is_empty() { Some(0) } else { name.parse().ok() }
}

/// By id if it is a number, else by name.
fn find<'a>(accounts: &'a Accounts, name: &str) -> Option<Account<'a>> {
    let mut all = accounts.passwd.lines().filter_map(account);
    match number(name) {
        Some(uid) => all.find(|account| account.uid == uid),
        None => all.find(|account| account.name == name),
    }
}

fn account(line: &str) -> Option<Account<'_>> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1).filter(|home| !home.is_empty()).unwrap_or("/");
    Some(Account { name, uid, gid, home })
}

fn group_id(accounts: &Accounts, name: &str) -> Result<i64> {
    let by_name = || groups(accounts).find(|(known, _, _)| *known == name).map(|(_, gid, _)| gid);
    number(name).or_else(by_name).ok_or_else(|| unknown("group", name))
}

fn memberships<'a>(accounts: &'a Accounts, user: &'a str) -> impl Iterator<Item = i64> {
    let member = move |members: &str| members.split(',').any(|member| member == user);
    groups(accounts).filter(move |(_, _, members)| member(members)).map(|(_, gid, _)| gid)
}

fn groups(accounts: &Accounts) -> impl Iterator<Item = (&str, i64, &str)> {
    accounts.group.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        Some((name, fields.nth(1)?.parse().ok()?, fields.next().unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        Accounts {
            passwd: "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/var/www:/bin/false\nbad\n".to_owned(),
            group: "root:x:0:\nlog:x:40:web,other\nwww:x:34:web\n".to_owned(),
        }
    }

    #[track_caller]
    fn check(
        image: &str,
        ask: impl FnOnce(&mut ContainerSecurityContext),
        expected: (i64, i64, &[i64], &str),
    ) {
        let mut asked = ContainerSecurityContext::default();
        ask(&mut asked);
        let image = Process { user: image.to_owned(), ..Process::default() };
        let found = identity(&asked, &image, &accounts()).unwrap();
        let user = &found.user;
        assert_eq!((user.uid, user.gid, user.supplemental_groups.as_slice(), found.home.as_str()), expected);
    }

    #[test]
    fn identities_are_found() {
        check("", |_| (), (0, 0, &[0], "/root"));
        check("web", |_| (), (33, 34, &[34, 40], "/var/www"));
        check("web:log", |_| (), (33, 40, &[40, 34], "/var/www"));
        check("1000:2000", |_| (), (1000, 2000, &[2000], "/"));
        check("web", |asked| asked.run_as_user = Some(7), (7, 0, &[0], "/"));
        check("", |asked| asked.run_as_username = "web".to_owned(), (33, 34, &[34, 40], "/var/www"));
        let strict = |asked: &mut ContainerSecurityContext| {
            asked.run_as_user = Some(33);
            asked.run_as_group = Some(5);
            asked.supplemental_groups = vec![9, 5];
            asked.supplemental_groups_policy = SupplementalGroupsPolicy::Strict;
        };
        check("", strict, (33, 5, &[5, 9], "/var/www"));
    }

    /// CVE-2016-3697: an image's user whose name looks like a number.
    #[test]
    fn a_number_is_never_a_name() {
        let accounts = Accounts {
            passwd: "1000:x:0:0::/root:/bin/sh\n+7:x:0:0::/:/bin/sh\n".to_owned(),
            group: "2000:x:0:1000\n".to_owned(),
        };
        let check = |image: &str, ask: Option<i64>, expected: (i64, i64)| {
            let asked = ContainerSecurityContext { run_as_user: ask, ..ContainerSecurityContext::default() };
            let image = Process { user: image.to_owned(), ..Process::default() };
            let user = identity(&asked, &image, &accounts).unwrap().user;
            assert_eq!((user.uid, user.gid), expected, "{image:?} {ask:?}");
            assert!(!user.supplemental_groups.contains(&0) || expected.1 == 0);
        };
        check("", Some(1000), (1000, 0));
        check("1000", None, (1000, 0));
        check("1000:2000", None, (1000, 2000));
        check("+7", None, (7, 0));
    }

    #[test]
    fn unknown_users_are_refused() {
        let image = Process { user: "missing".to_owned(), ..Process::default() };
        let error = identity(&ContainerSecurityContext::default(), &image, &accounts()).unwrap_err();
        assert!(error.to_string().starts_with("unable to find user missing"), "{error}");
    }
}
