//! Calls with a deadline, a login if the cluster has users, and a move to another member after a failure.

use std::sync::Arc;

use prost::Message;
use syncguard_core::authoring::Fault;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

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
    request: AuthenticateRequest,
    /// The token, and how many logins there were.
    token: Mutex<(Option<Token>, u64)>,
}

/// `None` if the cluster has no users.
pub(crate) type Token = Option<MetadataValue<Ascii>>;

impl Client {
    /// `user` has a name and a password.
    pub(crate) fn new(members: Arc<Members>, user: Option<(String, String)>) -> Self {
        let login = user.map(|(name, password)| Login {
            request: AuthenticateRequest { name, password },
            token: Mutex::default(),
        });
        Self { members, login }
    }

    /// Carries out a transaction.
    pub(crate) async fn txn(
        &self,
        rpc: Rpc,
        txn: &TxnRequest,
        deadline: Instant,
    ) -> Result<TxnResponse, Fault> {
        let loan = self.members.current.lend();
        if rpc == Rpc::Write && !loan.service.is_ours() {
            // A write must not reach a member of another cluster: an empty read shows its id.
            self.txn_over(&loan, Rpc::Read, &TxnRequest::default(), deadline).await?;
        }
        self.txn_over(&loan, rpc, txn, deadline).await
    }

    async fn txn_over(
        &self,
        loan: &Loan,
        rpc: Rpc,
        txn: &TxnRequest,
        deadline: Instant,
    ) -> Result<TxnResponse, Fault> {
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
        let loan = self.members.current.lend();
        self.call(&loan, Rpc::Read, deadline, |service, token| {
            let (channel, request) = (service.channel(), request((), token, Some(deadline)));
            Box::pin(async move { Ok((ask(channel?, path, request).await?, None)) })
        })
        .await
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
        let answer = answer.unwrap_or_else(|_| Err(Fault::timed_out(rpc == Rpc::Write)));
        let answer = answer.and_then(|(answer, cluster)| {
            cluster.map_or(Ok(()), |cluster| self.members.answers(loan, cluster))?;
            Ok(answer)
        });
        match &answer {
            Ok(_) => self.members.current.hears(),
            Err(fault) => self.members.act_on(fault, loan),
        }
        answer
    }

    /// Makes a call, once more if the token has expired or the member has forgotten it in a restart.
    async fn logged_in<T>(
        &self,
        rpc: Rpc,
        service: &dyn Service,
        call: impl Fn(&dyn Service, Token) -> Calling<Result<T, Status>>,
    ) -> Result<T, Fault> {
        let (token, number) = self.token(service).await?;
        let mut answer = call(service, token).await;
        if let (Err(status), Some(login)) = (&answer, &self.login)
            && error::is_token_refused(status)
        {
            login.forget(number).await;
            answer = call(service, self.token(service).await?.0).await;
        }
        answer.map_err(|status| error::from_status(&status, rpc))
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
}

impl Login {
    async fn log_in(&self, service: &dyn Service) -> Result<Token, Fault> {
        const PATH: &str = "/etcdserverpb.Auth/Authenticate";
        let failed = |status: Status| error::from_status(&status, Rpc::Read);
        let channel = service.channel().map_err(failed)?;
        let answer: AuthenticateResponse =
            match ask(channel, PATH, Request::new(self.request.clone())).await {
                Err(status) if error::has_no_users(&status) => return Ok(None),
                answer => answer.map_err(failed)?,
            };
        let token = answer.token.parse::<MetadataValue<Ascii>>();
        let mut token = token.map_err(|_| error::unintelligible("the token is not ASCII"))?;
        token.set_sensitive(true);
        Ok(Some(token))
    }

    /// Forgets the token of this login.
    async fn forget(&self, number: u64) {
        let mut known = self.token.lock().await;
        if known.1 == number {
            known.0 = None;
        }
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
