//! Redis and Valkey: a script that compares the fence and runs the commands of the write.

use syncguard_core::Fence;

/// A script that runs commands unless a holder with a higher fence has written before. Its answer is an integer for
/// [`check`](crate::check).
///
/// | | |
/// |---|---|
/// | `KEYS[1]` | the key that remembers the highest fence: a text of 15 digits |
/// | further `KEYS` | the keys that the commands use; on a cluster in the same slot, so with the same `{hash tag}` |
/// | `ARGV` | the [`arguments`] |
///
/// The comparison and the commands are one step. A command has 1 to 7997 words: if one has more, the script writes nothing and
/// fails, so split a long `MSET`. If a command fails, those before it stay, as in `MULTI`. Another copy of the script, which a
/// driver sends after a broken connection, runs the commands once more under the same fence.
///
/// The key of the fence must stay for as long as the data does: the script sets it without an expiry, and it must not be
/// evicted, so the server needs `noeviction` or one of the `volatile` policies. A failover to a replica that has not
/// received the last write forgets the fence together with the data.
pub const SCRIPT: &str = include_str!("fenced.lua");

/// The `ARGV` of [`SCRIPT`]: the fence, and each command as the number of its words and the words.
///
/// ```
/// use syncguard_fenced::{Fence, redis};
///
/// let fence = Fence::new(7)?;
/// let arguments = redis::arguments(fence, [["SET", "{profile:7}:name", "Ada"]]);
/// assert_eq!(arguments.len(), 5);
/// # Ok::<(), syncguard_fenced::LockError>(())
/// ```
pub fn arguments<C, W>(fence: Fence, commands: impl IntoIterator<Item = C>) -> Vec<Vec<u8>>
where
    C: IntoIterator<Item = W>,
    W: AsRef<[u8]>,
{
    let mut arguments = vec![fence.to_string().into_bytes()];
    for command in commands {
        let count = arguments.len();
        arguments.push(Vec::new());
        arguments.extend(command.into_iter().map(|word| word.as_ref().to_vec()));
        let words = arguments.len() - count - 1;
        arguments[count] = words.to_string().into_bytes();
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted() {
        let commands = [&["SET", "a", "1"][..], &["DEL", "b"]];
        let arguments = arguments(Fence::new(7).unwrap(), commands);
        let texts: Vec<_> =
            arguments.into_iter().map(|word| String::from_utf8(word).unwrap()).collect();
        assert_eq!(texts, ["000000000000007", "3", "SET", "a", "1", "2", "DEL", "b"]);
    }
}
