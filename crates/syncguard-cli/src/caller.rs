//! The process that has called this program.

use std::env;

use rustix::process::getppid;
use syncguard::contract::Holder;

/// A label for a lock that outlives this program: the user, the host name, and the id of the process that has called
/// this program, such as a shell or the runner of a CI job: `alice@build-7/412`.
pub(crate) fn label() -> String {
    let here = Holder::this_process();
    let host = here.label().rsplit_once('/').map_or("", |(host, _)| host);
    let user = ["LOGNAME", "USER"].iter().find_map(|name| env::var(name).ok());
    // A container has no process outside of it, whatever has started this one.
    let process = getppid().map(|process| process.as_raw_nonzero().get());
    of(user.as_deref().unwrap_or_default(), host, process)
}

/// Without the user if no store can keep the label with it.
fn of(user: &str, host: &str, process: Option<i32>) -> String {
    let at_host = process.map_or_else(|| host.to_owned(), |process| format!("{host}/{process}"));
    let label = format!("{user}@{at_host}");
    if user.is_empty() || Holder::new(&label).is_err() { at_host } else { label }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_named_by_user_host_and_process() {
        for (user, host, process, expected) in [
            ("alice", "build-7", Some(412), "alice@build-7/412"),
            ("", "build-7", Some(412), "build-7/412"),
            ("alice", "build-7", None, "alice@build-7"),
            ("a\nb", "build-7", Some(412), "build-7/412"),
            (&"x".repeat(128), "build-7", Some(412), "build-7/412"),
        ] {
            assert_eq!(of(user, host, process), expected);
        }
        let here = Holder::this_process();
        let host = here.label().rsplit_once('/').unwrap().0;
        let parent = getppid().unwrap().as_raw_nonzero();
        assert!(label().ends_with(&format!("{host}/{parent}")), "{}", label());
    }
}
