//! The requests, each within a deadline.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
    UpdateVersion,
};
use syncguard_core::LockError;
use syncguard_core::authoring::{Fault, SentAt, StoreTime};
use tokio::time::{Duration, Instant, sleep, timeout_at};

use crate::clock::Ear;
use crate::error::{self, Call};
use crate::layout;
use crate::record::{self, Version};

/// A store, and what its answers tell of the time.
pub(crate) struct Client {
    store: Arc<dyn ObjectStore>,
    pub(crate) ear: Arc<Ear>,
    /// The object for the time.
    time: Path,
    timeout: Duration,
    /// Lets one operation ask for the time.
    asks: tokio::sync::Mutex<()>,
    /// False in tests that count requests.
    measures: bool,
}

/// The answer to a write with a condition.
pub(crate) enum Put {
    Done(UpdateVersion),
    /// The condition does not hold.
    Refused,
}

impl Client {
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        ear: Ear,
        time: Path,
        timeout: Duration,
        measures: bool,
    ) -> Self {
        Self {
            store,
            ear: Arc::new(ear),
            time,
            timeout,
            asks: tokio::sync::Mutex::default(),
            measures,
        }
    }

    /// Reads an object; `None` if there is none. The inner error is that of a corrupt record.
    pub(crate) async fn get(
        &self,
        name: &Path,
        deadline: Instant,
    ) -> Result<Option<Result<Version, LockError>>, Fault> {
        let Some((meta, bytes)) = self.fetch(name, deadline).await? else { return Ok(None) };
        let tag = UpdateVersion { e_tag: meta.e_tag, version: meta.version };
        Ok(Some(Version::read(name.as_ref(), &bytes, tag)))
    }

    /// Reads the bytes of an object; `None` if there is none.
    pub(crate) async fn fetch(
        &self,
        name: &Path,
        deadline: Instant,
    ) -> Result<Option<(ObjectMeta, Vec<u8>)>, Fault> {
        let options = GetOptions { extensions: self.ear.listens(), ..GetOptions::default() };
        let read = async {
            let found = self.store.get_opts(name, options).await?;
            let meta = found.meta.clone();
            Ok((meta, found.bytes().await?))
        };
        match timeout_at(deadline, read).await {
            Ok(Ok((meta, bytes))) => Ok(Some((meta, bytes.to_vec()))),
            Ok(Err(Error::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(error::fault(&error, Call::Get)),
            Err(_) => Err(Fault::timed_out(false)),
        }
    }

    /// Writes an object under the condition of this mode.
    ///
    /// A store may answer "refused" to a write that it, or a proxy before it, has carried out and then tried again. So a refusal
    /// says only that the object is to be read.
    pub(crate) async fn put(
        &self,
        name: &Path,
        bytes: Vec<u8>,
        mode: PutMode,
        deadline: Instant,
    ) -> Result<Put, Fault> {
        let may_be_absent = matches!(mode, PutMode::Update(_));
        let extensions = self.ear.listens();
        let options = PutOptions { mode, extensions, ..PutOptions::default() };
        let put = self.store.put_opts(name, bytes.into(), options);
        match timeout_at(deadline, put).await {
            Ok(Ok(done)) => Ok(Put::Done(done.into())),
            // A conflict with another write of the same moment comes as "already exists", also for an update.
            Ok(Err(Error::Precondition { .. } | Error::AlreadyExists { .. })) => Ok(Put::Refused),
            Ok(Err(Error::NotFound { .. })) if may_be_absent => Ok(Put::Refused),
            Ok(Err(error)) => Err(error::fault(&error, Call::Put)),
            Err(_) => Err(Fault::timed_out(true)),
        }
    }

    /// Deletes an object, if it is there.
    pub(crate) async fn delete(&self, name: &Path, deadline: Instant) -> Result<(), Fault> {
        match timeout_at(deadline, self.store.delete(name)).await {
            Ok(Ok(()) | Err(Error::NotFound { .. })) => Ok(()),
            Ok(Err(error)) => Err(error::fault(&error, Call::Delete)),
            Err(_) => Err(Fault::timed_out(false)),
        }
    }

    /// The names in a folder with this beginning, in their order, behind the one that is given: at most `most`.
    pub(crate) async fn list(
        &self,
        folder: &Path,
        beginning: &str,
        behind: Option<&str>,
        most: usize,
        deadline: Instant,
    ) -> Result<Vec<Path>, Fault> {
        let (folder, first) = (Some(folder), layout::before(beginning));
        let mut listed = match behind.or(first.as_deref()) {
            Some(name) => self.store.list_with_offset(folder, &Path::from(name)),
            None => self.store.list(folder),
        };
        let all = async {
            let mut names = Vec::new();
            while names.len() < most {
                let Some(meta) = listed.try_next().await? else { break };
                let name = meta.location.as_ref();
                if name.starts_with(beginning) {
                    names.push(meta.location);
                } else if name > beginning {
                    break;
                }
            }
            Ok(names)
        };
        match timeout_at(deadline, all).await {
            Ok(Ok(names)) => Ok(names),
            Ok(Err(error)) => Err(error::fault(&error, Call::List)),
            Err(_) => Err(Fault::timed_out(false)),
        }
    }

    /// The store's time. An operation whose store has told none, or told it long ago, waits for an answer.
    ///
    /// # Errors
    ///
    /// The failures of the requests for it, `ServiceUnavailable` for a store that tells no time, and `Internal` for a clock
    /// that is out of range.
    pub(crate) async fn time(self: &Arc<Self>) -> Result<StoreTime, Fault> {
        let mut time = self.ear.clock.now()?;
        if !Ear::is_known(time) {
            let _one = self.asks.lock().await;
            time = self.ear.clock.now()?;
            if !Ear::is_known(time) {
                let asked = self.ask().await;
                time = self.ear.clock.now()?;
                if !time.is_told {
                    asked?;
                    return Err(untold().into());
                }
            }
        }
        if self.measures
            && self.ear.width() > Ear::EXACT
            && self.ear.is_due()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let client = Arc::downgrade(self);
            runtime.spawn(async move {
                for _ in 0..Ear::PROBES {
                    let Some(pause) = client.upgrade().and_then(|it| it.until_a_probe()) else {
                        return;
                    };
                    sleep(pause).await;
                    let Some(client) = client.upgrade() else { return };
                    if client.ask().await.is_err() {
                        return;
                    }
                }
            });
        }
        Ok(time)
    }

    /// How long to wait before the next probe; `None` if the time is known well enough.
    fn until_a_probe(&self) -> Option<Duration> {
        (self.ear.width() > Ear::EXACT).then(|| self.ear.until_the_second())
    }

    /// Asks for the time: by a read, if answers tell it, else by a write whose time a read tells.
    async fn ask(&self) -> Result<(), Fault> {
        let deadline = Instant::now() + self.timeout;
        if self.ear.has_dates() {
            return self.fetch(&self.time, deadline).await.map(drop);
        }
        // Other processes write the object as well. What was read tells the time only if it is what was written: an older state
        // would tell a time before the write was sent.
        for _ in 0..TRIES {
            let (mark, sent) = (record::nonce()?.into_bytes(), SentAt::now());
            self.put(&self.time, mark.clone(), PutMode::Overwrite, deadline).await?;
            if self.ear.has_dates() {
                break;
            }
            if let Some((meta, bytes)) = self.fetch(&self.time, deadline).await?
                && bytes == mark
            {
                self.ear.hears_change(sent, &meta);
                break;
            }
        }
        Ok(())
    }
}

/// How often the object of the time is written, if other processes write it at the same moment.
const TRIES: u32 = 4;

fn untold() -> LockError {
    let says = "the store tells no time, neither in the Date of its answers nor as the time of an object's last change";
    LockError::new(syncguard_core::ErrorCode::ServiceUnavailable, says)
}
