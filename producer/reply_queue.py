"""The queue on which a backend's results come back."""

import logging
import secrets

from aio_pika.abc import AbstractRobustConnection

from ..schemas.topology import Names, Queue, reply
from . import declare
from .connection import CONNECTION_LOST, open_channel
from .errors import AccessRefused, BrokerUnreachable, TopologyConflict, TopologyMissing
