//! A new way into the pages: whoever opens it is there who asked for it.

use super::answer::Refusal;
use super::{By, Shared};
use axum::extract::State;
use axum::{Extension, Json};
use warpyard_api::wire::LoginView;

pub(super) async fn login(State(app): Shared, Extension(who): By) -> Result<Json<LoginView>, Refusal> {
    if app.private() {
        who.must_be_admin("open the pages, which show everyone's jobs")?;
    }
    let once = app.doors.once(who.remembered()?).map_err(Refusal::internal)?;
    Ok(Json(LoginView { login: format!("{}/login?once={once}", app.url) }))
}
