//! The commands that an administrator types to mend the server of a URL.

use syncguard::LockError;
use syncguard::authoring::backend_url::BackendUrl;

/// Commands for one store, quoted for a shell.
pub(super) struct Typed {
    /// `redis-cli` with the address of the server.
    cli: String,
    user: String,
    rights: Vec<String>,
}

impl Typed {
    pub(super) fn for_store(url: &BackendUrl<'_>) -> Result<Self, LockError> {
        let after = url.base().split_once("//").map_or("", |(_, after)| after);
        let (login, place) = after.rsplit_once('@').unwrap_or(("", after));
        let user = login.split(':').next().filter(|user| !user.is_empty()).unwrap_or("default");
        let prefix = url.text("key_prefix")?.unwrap_or_else(|| "syncguard".to_owned());
        Ok(Self {
            cli: cli(url.scheme(), place, &tls(url)?),
            user: quoted(user),
            rights: rights(url, &prefix, place),
        })
    }

    /// A mend of the library, as a shell runs it.
    pub(super) fn complete(&self, mend: &str) -> String {
        let (cli, user) = (&self.cli, &self.user);
        mend.replace("CONFIG ", &format!("{cli} CONFIG "))
            .replace("ACL SETUSER USER", &format!("{cli} ACL SETUSER {user}"))
    }

    /// The access rules of the guide. They take no right away: other programs may use the user too.
    pub(super) fn allow_locks(&self) -> String {
        let rights: Vec<String> = self.rights.iter().map(|right| quoted(right)).collect();
        self.complete(&format!(
            "ACL SETUSER USER {} (waiters need client|tracking or else poll; it shows the names of all keys of the server to \
             this user)",
            rights.join(" ")
        ))
    }
}

/// The options of a URL with TLS.
fn tls(url: &BackendUrl<'_>) -> Result<String, LockError> {
    if !url.scheme().starts_with("rediss") && !url.scheme().starts_with("valkeys") {
        return Ok(String::new());
    }
    let mut options = " --tls".to_owned();
    for (option, name) in [("cacert", "sslrootcert"), ("cert", "sslcert"), ("key", "sslkey")] {
        if let Some(file) = url.text(name)? {
            options.extend([" --", option, " ", &quoted(&file)]);
        }
    }
    Ok(options)
}

fn cli(scheme: &str, place: &str, tls: &str) -> String {
    if scheme.ends_with("+unix") {
        return format!("redis-cli -s {}", quoted(place));
    }
    let address = place.split('/').next().unwrap_or_default();
    // The port behind the brackets of an IPv6 address.
    let port = address.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    let (host, port) = port.unwrap_or((address, "6379"));
    let host = quoted(host.trim_matches(['[', ']']));
    match scheme.rsplit_once('-').map(|(_, topology)| topology) {
        Some("cluster") => format!("redis-cli{tls} --cluster call {host}:{port}"),
        // The address is that of a Sentinel.
        Some("sentinel") => format!("redis-cli{tls} -h MASTER"),
        _ => format!("redis-cli{tls} -h {host} -p {port}"),
    }
}

/// As the section "Access rules" of the guide to the Redis backend.
fn rights(url: &BackendUrl<'_>, prefix: &str, place: &str) -> Vec<String> {
    let is_cluster = url.scheme().ends_with("-cluster");
    let is_sharded = is_cluster && !prefix.contains('{');
    // In a pattern, these characters stand for others.
    let prefix = ["\\", "*", "?", "["]
        .iter()
        .fold(prefix.to_owned(), |prefix, char| prefix.replace(char, &format!("\\{char}")));
    let keys = if is_sharded { format!("~{{{prefix}:*") } else { format!("~{prefix}:*") };
    let mut commands =
        "+evalsha +eval +get +set +incr +decr +del +persist +pexpire +time +ping +info".to_owned();
    let database = place.split_once('/').is_some_and(|(_, number)| !["", "0"].contains(&number));
    for (is_needed, more) in [
        (database && !url.scheme().ends_with("+unix"), "+select"),
        (is_cluster, "+cluster|slots +cluster|info"),
        (url.scheme().ends_with("-sentinel"), "+role"),
        (url.has("wait_replicas"), "+wait"),
        (true, "+client|tracking"),
    ] {
        if is_needed {
            commands.extend([" ", more]);
        }
    }
    std::iter::once(keys).chain(commands.split(' ').map(str::to_owned)).collect()
}

/// Quotes a word for a shell, unless it needs no quotes.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_server_the_user_and_the_prefix() {
        for (url, expected) in [
            (
                "redis://db:7001",
                "redis-cli -h db -p 7001 ACL SETUSER default '~syncguard:*' +evalsha",
            ),
            ("rediss://:p@[::1]", "redis-cli --tls -h ::1 -p 6379 ACL SETUSER default"),
            (
                "rediss-cluster://db:1?sslrootcert=/ca&sslcert=/c%20t&sslkey=/k",
                "redis-cli --tls --cacert /ca --cert '/c t' --key /k --cluster call db:1 ACL",
            ),
            (
                "redis://a:p@db/2?key_prefix=it's",
                r"-h db -p 6379 ACL SETUSER a '~it'\''s:*' +evalsha",
            ),
            ("redis://a:p@db/2?key_prefix=b", "+info +select '+client|tracking' ("),
            ("redis://db?key_prefix=a*", r"ACL SETUSER default '~a\*:*' +evalsha"),
            (
                "redis-cluster://db:1?key_prefix=b",
                "--cluster call db:1 ACL SETUSER default '~{b:*' ",
            ),
            ("redis-cluster://db?key_prefix=%7Bb%7D", "ACL SETUSER default '~{b}:*' +evalsha"),
            ("redis-sentinel://s:26379?sentinelServiceName=m", "redis-cli -h MASTER ACL SETUSER"),
            ("redis+unix:///run/r.sock?wait_replicas=1", "redis-cli -s /run/r.sock ACL SETUSER"),
        ] {
            let parsed = BackendUrl::parse(url).unwrap();
            let typed = Typed::for_store(&parsed).unwrap().allow_locks();
            assert!(typed.contains(expected), "{url}: {typed}");
        }
    }
}
