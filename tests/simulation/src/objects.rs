//! Object store: the backend `syncguard-object-store` over a bucket at the other end of the simulated network.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;
use syncguard_object_store::object_store::path::Path;
use syncguard_object_store::object_store::{
    self as driver, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, UpdateVersion,
};
use syncguard_object_store::{ObjectStoreBackend, ObjectStoreOptions};

use crate::flaw::Flaw;
use crate::link::Link;
use crate::network::Outcome;
use crate::protocol::{Reply as Answered, Request};

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Put {
        name: String,
        bytes: Vec<u8>,
        mode: Mode,
    },
    Get {
        name: String,
    },
    Delete {
        name: String,
    },
    /// The names in a folder, behind one.
    List {
        folder: String,
        behind: String,
    },
}

/// The condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    None,
    Absent,
    Tag(u64),
}

impl Call {
    /// Returns true if it may change a lock.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self, Self::Put { name, .. } if name.contains("/k/"))
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Answer {
    Put(u64),
    Got(Object),
    Deleted,
    Listed(Vec<(String, Object)>),
    NotFound,
    Refused,
    Full,
}

pub(crate) type Reply = Answer;

#[derive(Clone, Debug)]
pub(crate) struct Object {
    bytes: Vec<u8>,
    tag: u64,
    /// When it was written, in microseconds since 1970.
    changed: u64,
}

/// The bucket.
#[derive(Default)]
pub(crate) struct Bucket {
    all: BTreeMap<String, Object>,
    last: u64,
    /// True while it refuses writes.
    pub(crate) is_refusing: bool,
}

/// How long an expired lock counts as live, in milliseconds.
const TOLERANCE: u64 = 1000;

impl Bucket {
    /// Carries out a request. `now` is in microseconds since 1970.
    pub(crate) fn carry_out(&mut self, now: u64, call: Call) -> Reply {
        match call {
            Call::Put { .. } if self.is_refusing => Answer::Full,
            Call::Put { name, bytes, mode } => {
                let stored = self.all.get(&name).map(|object| object.tag);
                let holds = match mode {
                    Mode::None => true,
                    Mode::Absent => stored.is_none(),
                    Mode::Tag(tag) => stored == Some(tag),
                };
                if !holds {
                    return Answer::Refused;
                }
                self.last += 1;
                let object = Object { bytes, tag: self.last, changed: now };
                self.all.insert(name, object);
                Answer::Put(self.last)
            }
            Call::Get { name } => {
                self.all.get(&name).cloned().map_or(Answer::NotFound, Answer::Got)
            }
            Call::Delete { name } => {
                self.all.remove(&name);
                Answer::Deleted
            }
            Call::List { folder, behind } => {
                let within = self.all.range(folder.clone()..);
                let within = within.take_while(|(name, _)| name.starts_with(&folder));
                let within = within.filter(|(name, _)| **name > behind);
                Answer::Listed(within.map(|(name, it)| (name.clone(), it.clone())).collect())
            }
        }
    }

    /// The number of live locks at a time in milliseconds.
    pub(crate) fn live(&self, now: u64) -> u64 {
        let is_live = |object: &&Object| {
            let body: Value = serde_json::from_slice(&object.bytes).unwrap_or_default();
            let expires = body["lock"]["expiresAtMs"].as_u64();
            expires.is_some_and(|expires| expires + TOLERANCE > now)
        };
        self.all.values().filter(is_live).count() as u64
    }
}

/// A write as it arrives: what flaws of the wire leave out of it.
fn flawed(flaw: Option<Flaw>, call: Call) -> Call {
    let Call::Put { name, bytes, mode } = call else { return call };
    if !name.contains("/k/") || mode == Mode::None {
        return Call::Put { name, bytes, mode };
    }
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let lock = &body["lock"];
    let is_taken = lock["fence"] == body["fence"];
    let is_unchecked = match flaw {
        Some(Flaw::UncheckedRelease) => lock.is_null() && mode != Mode::Absent,
        // Some of the acquires: all of them would leave no order at all.
        Some(Flaw::UncheckedCounter) => {
            is_taken && lock["acquiredAtMs"].as_u64().is_some_and(|at| at % 7 == 0)
        }
        _ => false,
    };
    Call::Put { name, bytes, mode: if is_unchecked { Mode::None } else { mode } }
}

/// The backend of a process, whose clock is wrong.
pub(crate) fn backend(link: &Arc<Link>) -> ObjectStoreBackend {
    let (clock, bound) = (Arc::clone(link), link.bound);
    let options = ObjectStoreOptions::new()
        .with_prefix("p")
        .with_request_timeout(bound)
        .with_operation_timeout(3 * bound)
        // So few that the backend has to ask.
        .with_remembered_locks(64)
        .with_clock(move || UNIX_EPOCH + Duration::from_millis(clock.wall()));
    let connection = Arc::new(Connection(Arc::clone(link)));
    ObjectStoreBackend::from_store_with(connection, options).expect("a backend")
}

/// The driver's store, over the network.
struct Connection(Arc<Link>);

fn failed(why: &'static str) -> Error {
    Error::Generic { store: "simulated", source: why.into() }
}

impl Connection {
    async fn call(&self, call: Call) -> driver::Result<Answer> {
        let call = flawed(self.0.network().flaw, call);
        let name = match &call {
            Call::Put { name, .. } | Call::Get { name } | Call::Delete { name } => name.clone(),
            Call::List { .. } => String::new(),
        };
        let (ticket, answer) = self.0.send(Request::Object(call));
        let answer = answer.await;
        drop(ticket);
        let source = || "simulated".into();
        match answer {
            Ok(Outcome::Answered(Answered::Object(answer), _)) => match answer {
                Answer::NotFound => Err(Error::NotFound { path: name, source: source() }),
                Answer::Refused => Err(Error::Precondition { path: name, source: source() }),
                Answer::Full => Err(failed("the bucket is full")),
                answer => Ok(answer),
            },
            Ok(Outcome::Refused) => Err(failed("no connection")),
            _ => Err(failed("the connection was lost")),
        }
    }
}

fn meta(name: &str, object: &Object) -> ObjectMeta {
    let micros = i64::try_from(object.changed).expect("63 bits");
    ObjectMeta {
        location: Path::from(name),
        last_modified: chrono::DateTime::from_timestamp_micros(micros).expect("a date"),
        size: object.bytes.len() as u64,
        e_tag: Some(object.tag.to_string()),
        version: None,
    }
}

#[async_trait::async_trait]
impl ObjectStore for Connection {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> driver::Result<PutResult> {
        let mode = match options.mode {
            PutMode::Overwrite => Mode::None,
            PutMode::Create => Mode::Absent,
            PutMode::Update(UpdateVersion { e_tag, .. }) => {
                // A tag that no object has, such as an invented one.
                Mode::Tag(e_tag.and_then(|tag| tag.parse().ok()).unwrap_or_default())
            }
        };
        let (name, bytes) = (location.to_string(), payload.into_iter().flatten().collect());
        match self.call(Call::Put { name, bytes, mode }).await? {
            Answer::Put(tag) => {
                let (e_tag, version) = (Some(tag.to_string()), None);
                Ok(PutResult { e_tag, version, extensions: driver::Extensions::default() })
            }
            _ => Err(failed("another answer")),
        }
    }

    async fn get_opts(&self, location: &Path, _: GetOptions) -> driver::Result<GetResult> {
        let name = location.to_string();
        let Answer::Got(object) = self.call(Call::Get { name }).await? else {
            return Err(failed("another answer"));
        };
        let meta = meta(location.as_ref(), &object);
        Ok(GetResult {
            range: 0..meta.size,
            meta,
            payload: GetResultPayload::Stream(stream::iter([Ok(object.bytes.into())]).boxed()),
            attributes: driver::Attributes::default(),
            extensions: driver::Extensions::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, driver::Result<Path>>,
    ) -> BoxStream<'static, driver::Result<Path>> {
        let link = Arc::clone(&self.0);
        let delete = move |location: driver::Result<Path>| {
            let connection = Self(Arc::clone(&link));
            async move {
                let location = location?;
                connection.call(Call::Delete { name: location.to_string() }).await?;
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, driver::Result<ObjectMeta>> {
        self.list_with_offset(prefix, &Path::default())
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, driver::Result<ObjectMeta>> {
        let connection = Self(Arc::clone(&self.0));
        let folder = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let call = Call::List { folder, behind: offset.to_string() };
        let listed = async move {
            let Ok(Answer::Listed(all)) = connection.call(call).await else {
                return stream::iter(vec![Err(failed("no answer"))]);
            };
            stream::iter(
                all.iter().map(|(name, object)| Ok(meta(name, object))).collect::<Vec<_>>(),
            )
        };
        stream::once(listed).flatten().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> driver::Result<ListResult> {
        Err(failed("not simulated"))
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> driver::Result<Box<dyn MultipartUpload>> {
        Err(failed("not simulated"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> driver::Result<()> {
        Err(failed("not simulated"))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a simulated bucket")
    }
}
