"""All cases."""

from . import case_bodies, case_clients, case_lives, case_requests, case_responses, case_websockets

CASES = [case for module in (case_requests, case_bodies, case_responses, case_clients, case_websockets, case_lives)
         for case in module.CASES]
