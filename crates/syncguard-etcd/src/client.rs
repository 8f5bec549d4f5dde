//! Calls with a deadline, a login if the cluster has users, and a move to another member after a failure.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use syncguard_core::authoring::Fault;
use syncguard_core::{CredentialsProvider, LockError};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

use crate::config::EtcdOptions;
use crate::error::{self, Rpc};
use crate::members::{Loan, Members};
use crate::service::{Calling, Service, ask};
use crate::wire::{AuthenticateRequest, AuthenticateResponse, TxnRequest, TxnResponse};

/// Makes calls.
pub(crate) struct Client {
    pub(crate) members: Arc<Members>,
    login: Option<Login>,
}

/// A user of the cluster, and the token of its last login.
struct Login {
    /// The name and the password of the options.
    user: Option<(String, String)>,
    credentials: Option<CredentialsProvider>,
    limit: Duration,
    /// The token, and how many logins there were.
    token: Mutex<(Option<Token>, u64)>,
}

/// `None` if the cluster has no users.
pub(crate) type Token = Option<MetadataValue<Ascii>>;

impl Client {
    pub(crate) fn new(members: Arc<Members>, options: &mut EtcdOptions) -> Self {
        let (user, credentials) = (options.user.take(), options.credentials.take());
        let has_login = user.is_some() || credentials.is_some();
        let (limit, token) = (options.common.request_timeout, Mutex::default());
        let login = has_login.then_some(Login { user, credentials, limit, token });
        Self { members, login }
    }

    /// Carries out a transaction.
    pub(crate) async fn txn(
        &self,
        rpc: Rpc,
        txn: &TxnRequest,
        deadline: Instant,
    ) -> Result<TxnResponse, Fault> {
        let mut explained = 0;
        loop {
            let loan = self.members.current.lend();
            let answer = self.txn_of_cluster(&loan, rpc, txn, deadline).await;
            if let Some(answer) = self.judged(answer, &loan, &mut explained).await {
                return answer;
            }
        }
    }

    async fn txn_of_cluster(
        &self,
        loan: &Loan,
        rpc: Rpc,
        txn: &TxnRequest,
        deadline: Instant,
    ) -> Result<TxnResponse, Fault> {
        if rpc == Rpc::Write && !loan.service.is_ours() {
            // A write must not reach a member of another cluster: an empty read shows its id.
            let empty = TxnRequest::default();
            Box::pin(self.txn_of_cluster(loan, Rpc::Read, &empty, deadline)).await?;
        }
        self.call(loan, rpc, deadline, |service, token| {
            let calling = service.txn(request(txn.clone(), token, Some(deadline)));
            Box::pin(async move {
                let answer = calling.await?;
                let cluster = answer.header.as_ref().map(|header| header.cluster_id);
                Ok((answer, cluster))
            })
        })
        .await
    }

    /// A read whose request is empty, and that only a real server answers.
    pub(crate) async fn ask<A>(&self, path: &'static str, deadline: Instant) -> Result<A, Fault>
    where
        A: Message + Default + 'static,
    {
        let mut explained = 0;
        loop {
            let loan = self.members.current.lend();
            let calling = self.call(&loan, Rpc::Read, deadline, |service, token| {
                let (channel, request) = (service.channel(), request((), token, Some(deadline)));
                Box::pin(async move { Ok((ask(channel?, path, request).await?, None)) })
            });
            let answer = calling.await;
            if let Some(answer) = self.judged(answer, &loan, &mut explained).await {
                return answer;
            }
        }
    }

    /// A call, whose answer may come with the id of the cluster.
    async fn call<T>(
        &self,
        loan: &Loan,
        rpc: Rpc,
        deadline: Instant,
        call: impl Fn(&dyn Service, Token) -> Calling<Result<(T, Option<u64>), Status>>,
    ) -> Result<T, Fault> {
        let calling = self.logged_in(rpc, &*loan.service.service, call);
        let answer = timeout_at(deadline, calling).await;
        let (answer, cluster) =
            answer.unwrap_or_else(|_| Err(Fault::timed_out(rpc == Rpc::Write)))?;
        cluster.map_or(Ok(()), |cluster| self.members.answers(loan, cluster))?;
        Ok(answer)
    }

    /// The answer of a member, or `None` if another member has to be asked, which may have a better certificate.
    async fn judged<T>(
        &self,
        answer: Result<T, Fault>,
        loan: &Loan,
        explained: &mut usize,
    ) -> Option<Result<T, Fault>> {
        let fault = match answer {
            Ok(answer) => {
                self.members.current.hears();
                return Some(Ok(answer));
            }
            Err(fault) => fault,
        };
        let Some(error) = self.members.explain(&fault, loan, *explained > 0).await else {
            self.members.act_on(&fault, loan);
            return Some(Err(fault));
        };
        self.members.leave(loan);
        *explained += 1;
        (*explained >= self.members.count()).then(|| Err(error.into()))
    }

    /// Makes a call, once more if the token has expired or the member has forgotten it in a restart.
    async fn logged_in<T>(
        &self,
        rpc: Rpc,
        service: &dyn Service,
        call: impl Fn(&dyn Service, Token) -> Calling<Result<T, Status>>,
    ) -> Result<T, Fault> {
        let mut logins = 0;
        loop {
            let (token, number) = self.token(service).await?;
            let answer = call(service, token).await;
            if let (Err(status), Some(_)) = (&answer, &self.login)
                && error::is_token_refused(status)
            {
                self.forget(number).await;
                logins += 1;
                if logins < 2 {
                    continue;
                }
            }
            return answer.map_err(|status| error::from_status(&status, rpc));
        }
    }

    /// The token, after a login if there is none, and the number of that login.
    pub(crate) async fn token(&self, service: &dyn Service) -> Result<(Token, u64), Fault> {
        let Some(login) = &self.login else { return Ok((None, 0)) };
        // Callers wait here for one login.
        let mut known = login.token.lock().await;
        let (token, number) = &mut *known;
        if token.is_none() {
            *token = Some(login.log_in(service).await?);
            *number += 1;
        }
        Ok((token.clone().flatten(), *number))
    }

    /// Forgets the token of this login.
    pub(crate) async fn forget(&self, number: u64) {
        let Some(login) = &self.login else { return };
        let mut known = login.token.lock().await;
        if known.1 == number {
            known.0 = None;
        }
    }
}

impl Login {
    async fn log_in(&self, service: &dyn Service) -> Result<Token, Fault> {
        const PATH: &str = "/etcdserverpb.Auth/Authenticate";
        let failed = |status: Status| error::from_status(&status, Rpc::Read);
        let channel = service.channel().map_err(failed)?;
        let request = Request::new(self.request().await?);
        let answer: AuthenticateResponse = match ask(channel, PATH, request).await {
            Err(status) if error::has_no_users(&status) => return Ok(None),
            answer => answer.map_err(failed)?,
        };
        let token = answer.token.parse::<MetadataValue<Ascii>>();
        let mut token = token.map_err(|_| error::unintelligible("the token is not ASCII"))?;
        token.set_sensitive(true);
        Ok(Some(token))
    }

    async fn request(&self) -> Result<AuthenticateRequest, LockError> {
        let mut user = self.user.clone();
        if let Some(provider) = &self.credentials {
            let (name, password) = provider.provide(self.limit).await?.expose();
            user = name.or(user.map(|(name, _)| name)).map(|name| (name, password));
        }
        let (name, password) = user.ok_or_else(|| {
            LockError::invalid_argument(
                "neither the credentials nor the URL name the user; Credentials::with_user does",
            )
        })?;
        Ok(AuthenticateRequest { name, password })
    }
}

/// A request that only a member with a leader serves. The member stops at the deadline as well.
pub(crate) fn request<M>(message: M, token: Token, deadline: Option<Instant>) -> Request<M> {
    let mut request = Request::new(message);
    if let Some(deadline) = deadline {
        request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    }
    let metadata = request.metadata_mut();
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token);
    }
    request
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use syncguard_core::LockBackend as _;
    use syncguard_core::LockError;
    use syncguard_core::authoring::SentAt;
    use syncguard_core::contract::IsLockedRequest;
    use tonic::Code;

    use super::*;
    use crate::service::{Answers, Cluster, Requests};
    use crate::wire::{RangeResponse, ResponseOp};
    use crate::{EtcdBackend, EtcdOptions};

    /// A member that answers the first call with this status, and finds no records.
    #[derive(Clone)]
    struct Falters(Status, Arc<AtomicBool>);

    impl Cluster for Falters {
        fn members(&self) -> usize {
            1
        }

        fn connect(&self, _: usize) -> Result<Arc<dyn Service>, LockError> {
            Ok(Arc::new(self.clone()))
        }

        fn name(&self, _: usize) -> String {
            String::new()
        }

        fn get(&self, _: usize, _: &'static str) -> Calling<Option<(SentAt, String)>> {
            Box::pin(async { None })
        }
    }

    impl Service for Falters {
        fn txn(&self, _: Request<TxnRequest>) -> Calling<Result<TxnResponse, Status>> {
            let falters = !self.1.swap(true, Ordering::Relaxed);
            let found = ResponseOp { range: Some(RangeResponse::default()), txn: None };
            let answer = TxnResponse { responses: vec![found], ..TxnResponse::default() };
            let answer = if falters { Err(self.0.clone()) } else { Ok(answer) };
            Box::pin(async { answer })
        }

        fn watch(&self, _: Request<Requests>) -> Calling<Result<Answers, Status>> {
            Box::pin(async { Err(Status::unimplemented("no watches")) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_internal_error_ends_no_read() {
        for (code, text, is_over) in [
            (Code::Internal, "x", false),
            (Code::Unknown, "x", false),
            (Code::Unknown, "raft proposal dropped", false),
            (Code::PermissionDenied, "etcdserver: permission denied", true),
        ] {
            let member = Falters(Status::new(code, text), Arc::default());
            let options = EtcdOptions { probes_clock: false, ..EtcdOptions::new() };
            let backend = EtcdBackend::over(Members::new(Arc::new(member)).unwrap(), options);
            let read = backend.unwrap().is_locked(IsLockedRequest::new("k").unwrap()).await;
            assert_eq!(read.is_err(), is_over, "{code:?} {text}: {read:?}");
        }
    }
}
