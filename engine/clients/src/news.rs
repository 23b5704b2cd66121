// SPDX-License-Identifier: Apache-2.0
//! What all clients of a VLAN learn from one frame: it reaches them one after the other, a portion at each poll.
use spate_net::{ethernet::Mac, ndp::RouterAdvertisement, vlan::Tags};

use crate::layout::{Layout, Members};

/// News that wait until earlier ones have reached all clients.
const NEWS: usize = 16;

/// A default router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Router {
    pub(crate) address: u128,
    pub(crate) mac: Mac,
}

impl Router {
    pub(crate) const BLANK: Self = Self { address: 0, mac: [0; 6] };
}

/// What concerns all clients of a VLAN: it reaches them one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Router {
        router: Router,
        advertisement: RouterAdvertisement,
    },
    /// An IPv4 gateway announces its MAC.
    Gateway {
        address: u32,
        mac: Mac,
    },
}

#[derive(Clone, Copy, Debug)]
struct Walk {
    news: News,
    members: Members,
    /// When it was received.
    at_ns: u64,
    /// The next client.
    next: u64,
}

/// News on their way to clients, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Walks {
    walks: [Option<Walk>; NEWS],
}

impl Walks {
    pub(crate) fn is_empty(&self) -> bool {
        self.walks[0].is_none()
    }

    /// Adds news for the clients of a VLAN. False if there is no room.
    pub(crate) fn add(&mut self, news: News, tags: Tags, at_ns: u64, layout: &Layout) -> bool {
        let Some(members) = layout.members(tags) else { return true };
        let known = |walk: &Walk| walk.news == news && walk.members == members && walk.next == members.first;
        if self.walks.iter().flatten().any(known) {
            return true;
        }
        let Some(free) = self.walks.iter_mut().find(|free| free.is_none()) else { return false };
        *free = Some(Walk { news, members, at_ns, next: members.first });
        true
    }

    /// A station announces that it has an IPv4 address: it may be the gateway of clients.
    pub(crate) fn announced(&mut self, address: u32, mac: Mac, tags: Tags, layout: &Layout) {
        // What does not fit is found when clients ask again.
        self.add(News::Gateway { address, mac }, tags, 0, layout);
    }

    /// The next client that news reach, and the news.
    pub(crate) fn next(&mut self, count: u32) -> Option<(u32, News, u64)> {
        while let Some(walk) = &mut self.walks[0] {
            if let Some(index) = u32::try_from(walk.next).ok().filter(|index| *index < count) {
                walk.next += walk.members.step;
                return Some((index, walk.news, walk.at_ns));
            }
            self.walks[0] = None;
            self.walks.rotate_left(1);
        }
        None
    }
}
